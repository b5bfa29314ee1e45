/** Keys that act without a modifier, while nobody types and no dialog is open. Escape ends typing first. */

/** By key; what returns false had nothing to do, and leaves the key to whoever was there before. */
type Actions = Record<string, () => unknown>;

const registered = new Set<Actions>();

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target instanceof Element ? event.target : document.body;
  const typing = target.closest(
    "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]",
  );
  if (document.querySelector("dialog[open], [popover]:popover-open")) return;
  if (typing) {
    if (event.key === "Escape" && typing instanceof HTMLElement) typing.blur();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.repeat && key !== "j" && key !== "k") return;
  // Whoever came last is the closest to what is looked at.
  for (const actions of [...registered].reverse()) {
    const action = Object.hasOwn(actions, key) ? actions[key] : undefined;
    if (action === undefined || action() === false) continue;
    event.preventDefault();
    return;
  }
});

/** Listens for as long as whoever asks is there: call it while a component is made. */
export function onKeys(actions: Actions): void {
  $effect(() => {
    registered.add(actions);
    return () => registered.delete(actions);
  });
}
