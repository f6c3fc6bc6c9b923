/** The `Range` header of readContent (docs/api.md, readContent). Pure. */

export type ByteRange =
  | { readonly kind: 'whole' }
  /** `end` is exclusive */
  | { readonly kind: 'part'; readonly start: number; readonly end: number }
  | { readonly kind: 'unsatisfiable' };

const BYTE_RANGE = /^bytes=([0-9]*)-([0-9]*)$/;
const UNSATISFIABLE: ByteRange = { kind: 'unsatisfiable' };

/** `bytes=a-b`, `bytes=a-`, `bytes=-n`, judged against `size`; an end beyond it is clamped. Everything else is unsatisfiable. */
export function parseByteRange(header: string | undefined, size: number): ByteRange {
  if (header === undefined) return { kind: 'whole' };
  const match = BYTE_RANGE.exec(header);
  if (match === null || size === 0) return UNSATISFIABLE;
  const first = match[1] ?? '';
  const last = match[2] ?? '';
  if (first === '') {
    // Number() of very many digits is Infinity, which is clamped like any large number.
    const count = last === '' ? 0 : Number(last);
    if (count === 0) return UNSATISFIABLE;
    return { kind: 'part', start: Math.max(0, size - count), end: size };
  }
  const start = Number(first);
  const lastByte = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (start > lastByte) return UNSATISFIABLE;
  return { kind: 'part', start, end: lastByte + 1 };
}
