/** The target of a WebDAV address: the list of names, a name, a path below it, or an old snapshot. */
import { EDITED_NAME_BYTES_MAX, isSnapshotName, parseEditPath } from '@holdfast/client/internal';
import { DoorError, decodePart, requireShort } from '../door.ts';

/** `key` is the whole decoded path; `isOld` is whether it is in `/.snapshots`. */
export interface DavPlace {
  readonly key: string;
  readonly parts: readonly string[];
  readonly isOld: boolean;
}

const OLD = '.snapshots';

/** Throws DoorError 400, 403, 414. */
export function parsePlace(target: string): DavPlace {
  requireShort(target);
  const [raw = ''] = target.replace(/^https?:\/\/[^/]*/, '').split('?');
  if (!raw.startsWith('/') || raw.includes('#'))
    throw new DoorError(400, 'the address does not begin with /, or has a fragment');
  const inner = raw.replace(/^\/|\/$/g, '');
  const parts = inner === '' && raw.length < 2 ? [] : inner.split('/').map(decodeName);
  const isOld = parts[0] === OLD;
  return { key: parts.join('/'), parts, isOld };
}

/** Throws DoorError 400. */
function decodeName(part: string): string {
  const refusal = 'a part of the address can be no name';
  const name = decodePart(part, refusal);
  if (Buffer.byteLength(name) > EDITED_NAME_BYTES_MAX) throw new DoorError(400, refusal);
  return name;
}

export function refuseOld(): DoorError {
  return new DoorError(403, 'old snapshots are only read; COPY restores out of them');
}

/** Below a name. Throws DoorError 403. */
export function requireEntry({ parts, isOld }: DavPlace): { readonly name: string; readonly path: string } {
  if (isOld) throw refuseOld();
  const [name, ...rest] = parts;
  if (name === undefined || rest.length === 0)
    throw new DoorError(403, 'names are made by MKCOL, and forgotten by holdfast forget');
  requireName(name);
  const path = rest.join('/');
  parseEditPath(path, 0);
  return { name, path };
}

/** Throws DoorError 403. */
export function requireName(name: string): void {
  if (!isSnapshotName(name)) throw new DoorError(403, 'snapshots cannot have this name');
}

/** The address of a place, with a slash for folders. */
export function formatPlace(parts: readonly string[], isFolder: boolean): string {
  const path = parts.map((part) => `/${encodeURIComponent(part)}`).join('');
  return isFolder ? `${path}/` : path;
}

export function isWithin(key: string, above: string): boolean {
  return above === '' || key === above || key.startsWith(`${above}/`);
}
