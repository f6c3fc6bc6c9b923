/** Small pictures that come with words, so that they need no name of their own. */
import type { ComponentChildren } from 'preact';

function Icon({ children }: { readonly children: ComponentChildren }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      {children}
    </svg>
  );
}

export function Mark() {
  return (
    <Icon>
      <rect class="mark" width="16" height="16" rx="3" />
      <path class="mark-lines" d="M5 3.5v9M11 3.5v9M5 8h6" />
    </Icon>
  );
}

const SHAPES = {
  directory: 'M1.5 3.5h4.5l1.5 1.5h7v8h-13z',
  file: 'M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3',
  symlink: 'M6.5 9.5l3-3M7 5l1.8-1.8a2.5 2.5 0 013.6 3.6L10.6 8.6M9 11l-1.8 1.8a2.5 2.5 0 01-3.6-3.6L5.4 7.4',
  other: 'M8 1.5l5.6 3.2v6.6L8 14.5l-5.6-3.2V4.7z',
} as const;

export function KindIcon({ kind }: { readonly kind: keyof typeof SHAPES }) {
  return (
    <Icon>
      <path class={`shape ${kind}`} d={SHAPES[kind]} />
    </Icon>
  );
}
