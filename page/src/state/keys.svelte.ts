/** Keys that act without a modifier, while nobody types and no dialog is open. */

type Actions = Record<string, (event: KeyboardEvent) => void>;

const registered = new Set<Actions>();

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target instanceof Element ? event.target : document.body;
  const typing = target.closest(
    "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]",
  );
  if (typing || document.querySelector("dialog[open]")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  for (const actions of registered) {
    const action = Object.hasOwn(actions, key) ? actions[key] : undefined;
    if (!action) continue;
    if (!event.repeat || key === "j" || key === "k") action(event);
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
