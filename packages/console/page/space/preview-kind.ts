/** Chooses the preview of some bytes. The bytes alone decide: neither a name nor a content type is believed. */

/** Only raster images: what is text, SVG and HTML among it, is shown as text. */
export type PreviewKind =
  | { readonly type: 'text' | 'binary' }
  | { readonly type: 'image'; readonly mediaType: string };

const MAGIC: readonly (readonly [mediaType: string, offset: number, bytes: readonly number[]])[] = [
  ['image/png', 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', 0, [0xff, 0xd8, 0xff]],
  ['image/gif', 0, [0x47, 0x49, 0x46, 0x38]],
  ['image/bmp', 0, [0x42, 0x4d]],
  ['image/webp', 8, [0x57, 0x45, 0x42, 0x50]],
  ['image/avif', 4, [0x66, 0x74, 0x79, 0x70, 0x61, 0x76, 0x69, 0x66]],
];

/** By the first bytes of the content. */
export function findPreviewKind(bytes: Uint8Array): PreviewKind {
  const image = MAGIC.find(([, offset, magic]) => magic.every((byte, at) => bytes[offset + at] === byte));
  const isText = looksLikeText(bytes);
  // `BM` begins many a text.
  if (image !== undefined && !(image[0] === 'image/bmp' && isText))
    return { type: 'image', mediaType: image[0] };
  return { type: isText ? 'text' : 'binary' };
}

function looksLikeText(bytes: Uint8Array): boolean {
  let controls = 0;
  for (const byte of bytes) {
    if (byte === 0) return false;
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d && byte !== 0x1b && byte !== 0x0c)
      controls += 1;
  }
  return controls <= bytes.length * 0.02 && isUtf8(bytes);
}

function isUtf8(bytes: Uint8Array): boolean {
  // A character may be cut at the end of a part.
  for (let cut = 0; cut <= Math.min(3, bytes.length); cut += 1) {
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, bytes.length - cut));
      return true;
    } catch {
      // Perhaps only the last character is cut.
    }
  }
  return false;
}

const LINE_BYTES = 16;

/** As `hexdump -C` shows it. */
export function formatHex(bytes: Uint8Array, start: number): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += LINE_BYTES) {
    const part = bytes.subarray(at, at + LINE_BYTES);
    const hex = Array.from(part, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = Array.from(part, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.',
    ).join('');
    lines.push(`${(start + at).toString(16).padStart(8, '0')}  ${hex.padEnd(LINE_BYTES * 3)} ${text}`);
  }
  return lines.join('\n');
}
