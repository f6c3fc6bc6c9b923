/** The place of an entry in a tree: a chain of raw names, as long as the tree is deep. */

import { concatBytes, spellUnsafe } from '@holdfast/protocol';
import { checkBytes, checkObject } from '../../arguments.ts';

const SLASH = Uint8Array.of(0x2f);

export interface TreePath {
  /** undefined: the entry stands in the root itself */
  readonly parent: TreePath | undefined;
  /** raw bytes */
  readonly name: Uint8Array;
}

export function pathNames(path: TreePath | undefined): Uint8Array[] {
  const names: Uint8Array[] = [];
  for (let at = path; at !== undefined; at = at.parent) names.push(at.name);
  return names.reverse();
}

/** The raw bytes, joined by slashes. */
export function pathBytes(path: TreePath | undefined): Uint8Array {
  return concatBytes(pathNames(path).flatMap((name, index) => (index === 0 ? [name] : [SLASH, name])));
}

/** For people: one line that is safe on a terminal. */
export function formatPath(path: TreePath | undefined): string {
  if (path !== undefined)
    checkObject({ name: 'formatPath', requestOperation: 'readNodes' }, 'the path', path);
  return path === undefined ? '.' : pathNames(path).map(formatName).join('/');
}

/** A name, or any raw text, for people: bytes that are no UTF-8 as `\xNN`, unsafe characters as `\uNNNN`. */
export function formatName(name: Uint8Array): string {
  checkBytes({ name: 'formatName', requestOperation: 'readNodes' }, 'the name', name);
  const text = findText(name) ?? formatBytes(name);
  return spellUnsafe(text);
}

/** The text that `bytes` are in UTF-8; undefined when they are not. */
export function findText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // That is the answer: they are not.
    return undefined;
  }
}

function formatBytes(name: Uint8Array): string {
  return Array.from(name, (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
  ).join('');
}
