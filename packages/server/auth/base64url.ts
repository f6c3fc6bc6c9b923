/** Strict base64url (RFC 4648, section 3.5). Lenient decoders skip invalid characters, so two texts would decode to the same bytes. */

/** Whole groups, then optionally a shorter group whose unused trailing bits are zero. */
const BASE64URL = /^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$/;

/** Returns whether `text` is the canonical encoding of some bytes, without padding. Empty text is valid. */
export function isBase64url(text: string): boolean {
  return BASE64URL.test(text);
}
