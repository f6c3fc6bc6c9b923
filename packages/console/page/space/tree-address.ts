/** Where something is in a tree, as part of this page's address: names are bytes, so each is spelt byte by byte. */
import { concatBytes } from '@holdfast/protocol';

const PLAIN = /[A-Za-z0-9_.~-]/;

/** `docs/a%20b` */
export function encodeNames(names: readonly Uint8Array[]): string {
  return names.map(encodeName).join('/');
}

function encodeName(name: Uint8Array): string {
  return Array.from(name, (byte) => {
    const character = String.fromCharCode(byte);
    return PLAIN.test(character) ? character : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }).join('');
}

export function decodeName(segment: string): Uint8Array {
  const parts = segment.match(/%[0-9A-Fa-f]{2}|[\s\S]/gu) ?? [];
  const bytes = parts.map((part) =>
    part.length === 3 && part.startsWith('%')
      ? Uint8Array.of(Number.parseInt(part.slice(1), 16))
      : new TextEncoder().encode(part),
  );
  return concatBytes(bytes);
}

export function treeHref(root: string, names: readonly Uint8Array[] = []): string {
  return `#/space/tree/${root}${names.length === 0 ? '' : `/${encodeNames(names)}`}`;
}

export function nodeHref(hash: string): string {
  return `#/space/node/${hash}`;
}
