/** A part that may be wider than the page scrolls by itself: with the keyboard too, so it can have the focus and has a name. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

export function Scroll({
  label,
  kind = '',
  centre,
  children,
}: {
  readonly label: string;
  readonly kind?: string;
  /** what is to be in the middle at first, px from the left and the top of what scrolls */
  readonly centre?: { readonly x: number; readonly y: number } | undefined;
  readonly children: ComponentChildren;
}) {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (box.current === null || centre === undefined) return;
    box.current.scrollLeft = centre.x - box.current.clientWidth / 2;
    box.current.scrollTop = centre.y - box.current.clientHeight / 2;
  }, [centre]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without it the keyboard cannot scroll here
    <section ref={box} class={`scroll ${kind}`} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
