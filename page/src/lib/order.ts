/** The order of a list that people point at: what is new waits until it is taken in, what is gone keeps its place. */

export interface Order {
  /** What is shown, in its order. */
  shown: string[];
  /** What has come since, and is not shown yet. */
  arrived: string[];
  /** What is shown and no longer there. */
  gone: Set<string>;
}

export const EMPTY: Order = { shown: [], arrived: [], gone: new Set() };

/**
 * The order after the first page was read anew. `whole`: there are no further pages. What is shown beyond
 * that page stays as it is. While `frozen` nothing that is shown moves.
 */
export function reread(order: Order, page: string[], whole: boolean, frozen: boolean): Order {
  const onPage = new Set(page);
  // The page ends at the last of what was shown already: what it does not name before that is gone.
  const reach = whole ? order.shown.length : order.shown.findLastIndex((key) => onPage.has(key)) + 1;
  const gone = new Set(
    order.shown.filter((key, index) => !onPage.has(key) && (index < reach || order.gone.has(key))),
  );
  if (frozen) {
    const known = new Set(order.shown);
    return { shown: order.shown, arrived: page.filter((key) => !known.has(key)), gone };
  }
  const beyond = order.shown.filter((key) => !onPage.has(key) && !gone.has(key));
  return { shown: [...page, ...beyond], arrived: [], gone: new Set() };
}

/** The order with one more page below. */
export function append(order: Order, page: string[]): Order {
  const known = new Set([...order.shown, ...order.arrived]);
  return { ...order, shown: [...order.shown, ...page.filter((key) => !known.has(key))] };
}
