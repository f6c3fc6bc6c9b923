/** Strict base64url (RFC 4648, section 3.5): decoders pass over what does not belong there, so two texts would mean the same bytes. */

/** Whole groups, then nothing or a shorter group whose last character has no bits that decode to nothing. */
const BASE64URL = /^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$/;

/** Whether `text` is the one encoding of some bytes, without padding. The empty text is that of no bytes. */
export function isBase64url(text: string): boolean {
  return BASE64URL.test(text);
}
