/** Keys of the cache: what an address stands for, and where in the tree of the name its value lies. */
import { createHash } from 'node:crypto';
import { EDITED_NAME_BYTES_MAX } from '@holdfast/client/internal';
import { DoorError, decodePart, requireShort } from '../door.ts';

/** The folders of the tree. */
type KeyKind = 'ac' | 'artifacts' | 'cas' | 'keys';

export interface CacheKey {
  readonly kind: KeyKind;
  /** in the tree of the name */
  readonly path: string;
  /** that the value must have; of `cas` */
  readonly sha256?: string;
}

/** An address with its path decoded, without the first `/`. */
export interface CacheAddress {
  readonly path: string;
  readonly isFolder: boolean;
  readonly query: URLSearchParams;
}

const KEY_BYTES_MAX = 1024;
const ARTIFACTS = 'v8/artifacts/';
const SHA256 = /^[0-9a-f]{64}$/;

export function isSha256(text: string): boolean {
  return SHA256.test(text);
}

/** Throws DoorError 400, 414. */
export function parseAddress(target: string): CacheAddress {
  requireShort(target);
  const [, raw, query = ''] = /^(?:https?:\/\/[^/?#]*)?\/([^?#]*)(?:\?([^#]*))?$/.exec(target) ?? [];
  if (raw === undefined)
    throw new DoorError(400, 'the address does not begin with a slash, or has a fragment');
  const isFolder = raw === '' || raw.endsWith('/');
  const parts = isFolder ? raw.slice(0, -1) : raw;
  const path = raw === '' ? '' : parts.split('/').map(decodeKeyPart).join('/');
  return { path, isFolder, query: new URLSearchParams(query) };
}

const decodeKeyPart = (part: string): string => decodePart(part, 'a part of the address can be in no key');

/** Throws DoorError 400, 414. */
export function parseKey({ path, isFolder, query }: CacheAddress): CacheKey {
  if (isFolder) throw new DoorError(400, 'a key does not end with a slash');
  const teamed = path.startsWith(ARTIFACTS) ? teamKey(path.slice(ARTIFACTS.length), query) : undefined;
  const key = teamed ?? path;
  if (Buffer.byteLength(key) > KEY_BYTES_MAX)
    throw new DoorError(414, `a key has at most ${KEY_BYTES_MAX} bytes`);
  if (teamed !== undefined) return place('artifacts', key);
  const [, prefix = '', kind, sha256 = ''] = /^(.*\/)?(ac|cas)\/([^/]*)$/.exec(key) ?? [];
  const isOther = kind === undefined && !/^(?:ac|cas)(?:\/|$)/.test(key);
  if (isOther) return place('keys', key);
  if (!isSha256(sha256))
    throw new DoorError(400, 'keys of ac/ and cas/ are a SHA-256 in lower-case hexadecimal');
  if (kind === 'cas') return { ...place('cas', sha256), sha256 };
  return place('ac', `${prefix}${sha256}`);
}

/** The team and the hash. Throws DoorError 400. */
function teamKey(hash: string, query: URLSearchParams): string {
  if (hash.includes('/')) throw new DoorError(400, 'an artifact is one hash');
  return `${query.get('teamId') ?? query.get('slug') ?? ''}/${hash}`;
}

function place(kind: KeyKind, key: string): CacheKey {
  const name = encodeURIComponent(key);
  const isShort = name.length <= EDITED_NAME_BYTES_MAX;
  // No encoded text begins so.
  const long = `%sha256-${createHash('sha256').update(key).digest('hex')}`;
  return { kind, path: `${kind}/${isShort ? name : long}` };
}
