/** Where an address of WebDAV leads: the list of names, a name, or what is below it. */
import { isSnapshotName, parseEditPath } from '@holdfast/client/internal';
import { DoorError } from '../door.ts';

/** `path` is empty for the name itself. */
export type DavPlace = { readonly name: undefined } | { readonly name: string; readonly path: string };

const TARGET_BYTES_MAX = 16 * 1024;

/** Throws DoorError 400, 403, 414. */
export function parsePlace(target: string): DavPlace {
  if (target.length > TARGET_BYTES_MAX) throw new DoorError(414, 'the address is too long');
  const [raw = ''] = target.split('?');
  const parts = raw
    .replace(/^\/|\/$/g, '')
    .split('/')
    .map(decodePart);
  const [name = '', ...rest] = parts;
  if (name === '' && rest.length === 0) return { name: undefined };
  if (!isSnapshotName(name)) throw new DoorError(404, 'there is no such name');
  const path = rest.join('/');
  if (path !== '') parseEditPath(path, 0);
  return { name, path };
}

function decodePart(part: string, _index: number, all: readonly string[]): string {
  if (part === '' && all.length === 1) return part;
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    throw new DoorError(400, 'the address is no UTF-8');
  }
  const hasControl = [...text].some((character) => character < ' ' || character === '\u007f');
  if (text === '' || text === '.' || text === '..' || text.includes('/') || hasControl) {
    throw new DoorError(400, 'a part of the address can be no name');
  }
  return text;
}

/** The address of a place, with a slash for folders. */
export function formatPlace(names: readonly string[], isFolder: boolean): string {
  const path = names.map((name) => `/${encodeURIComponent(name)}`).join('');
  return isFolder ? `${path}/` : path;
}
