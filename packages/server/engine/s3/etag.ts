/** The integrity record of an object in S3: its ETag as seen while its bytes were validated. */

/** A strong entity tag: quoted, printable. If-Match never matches a weak one (`W/`). */
const STRONG = /^"[\x21\x23-\x7e]+"$/;

export function findStrongEtag(headers: Headers): string | undefined {
  const etag = headers.get('etag');
  if (etag === null || etag.length > 256 || !STRONG.test(etag)) return undefined;
  return etag;
}

export function etagToIntegrity(etag: string): Uint8Array {
  return new TextEncoder().encode(etag);
}

/** `undefined`: the record holds no ETag, so it is the record of no object here. */
export function findEtagOf(integrity: Uint8Array): string | undefined {
  const etag = new TextDecoder('latin1').decode(integrity);
  return etag.length <= 256 && STRONG.test(etag) ? etag : undefined;
}
