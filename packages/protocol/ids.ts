/** Ids of Apps and Spaces in paths, and root-ref domains. */
import { findDecoded } from './foreign-text.ts';
import { PATH_ID_CHARACTERS_MAX, REF_DOMAIN_CHARACTERS_MAX } from './limits.ts';

export type ParsedPathId =
  | { readonly kind: 'id'; readonly id: string }
  /** `.` or `..`, encoded or not: no such route */
  | { readonly kind: 'not-found' }
  /** empty, too long, undecodable, or with control characters */
  | { readonly kind: 'invalid' };

const NOT_FOUND: ParsedPathId = { kind: 'not-found' };
const INVALID: ParsedPathId = { kind: 'invalid' };

/** Most ids: nothing to decode, nothing forbidden, within the length. A dot leads to the slow path. */
const PLAIN_ID = /^[A-Za-z0-9_~:-]{1,256}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;
const REF_DOMAIN = /^[a-z][a-z0-9]*(?::[a-z0-9]+)*$/;

/** Decodes one raw path segment to an id: 1 to 256 code points, no control characters, no folding; `%2F` decodes into it. */
export function parsePathId(rawSegment: string): ParsedPathId {
  if (PLAIN_ID.test(rawSegment)) return { kind: 'id', id: rawSegment };
  const id = findDecoded(rawSegment);
  if (id === '.' || id === '..') return NOT_FOUND;
  if (id === undefined || !isPathId(id)) return INVALID;
  return { kind: 'id', id };
}

/** Whether a decoded string may be an `appId` or `spaceId` in a path. */
export function isPathId(id: string): boolean {
  if (id === '' || id === '.' || id === '..') return false;
  return hasAtMostCodePoints(id, PATH_ID_CHARACTERS_MAX) && !CONTROL_CHARACTER.test(id) && id.isWellFormed();
}

export function isRefDomain(value: unknown): value is string {
  return typeof value === 'string' && value.length <= REF_DOMAIN_CHARACTERS_MAX && REF_DOMAIN.test(value);
}

/** Counts Unicode code points, and never more of them than it must. */
export function hasAtMostCodePoints(text: string, max: number): boolean {
  if (text.length <= max) return true;
  if (text.length > 2 * max) return false;
  let count = 0;
  for (const _ of text) count++;
  return count <= max;
}
