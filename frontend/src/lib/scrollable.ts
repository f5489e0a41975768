// Boxes that scroll and have nothing to focus inside can be focused themselves, so that the keyboard can scroll them.
const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]";

function mark(root: Element): void {
  for (const box of root.querySelectorAll<HTMLElement>(".scroll")) {
    const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
    if (scrolls && !box.querySelector(FOCUSABLE)) box.tabIndex = 0;
    else if (box.tabIndex === 0 && !box.hasAttribute("role")) box.removeAttribute("tabindex");
  }
}

/** Watch an element; returns how to end it. */
export function watchScrolling(root: Element): () => void {
  let waiting = 0;
  const later = (): void => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => mark(root));
  };
  const changes = new MutationObserver(later);
  const sizes = new ResizeObserver(later);
  changes.observe(root, { childList: true, subtree: true });
  sizes.observe(root);
  return () => {
    changes.disconnect();
    sizes.disconnect();
    cancelAnimationFrame(waiting);
  };
}
