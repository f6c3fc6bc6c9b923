/** The hash of the server's certificate (`tls-server-end-point` of RFC 5929), which binds the proof of a password to it. Pure. */
import { createHash } from 'node:crypto';

/** The hash of a signature, by the name of its algorithm (an object identifier, hex of DER). Older hashes count as SHA-256. */
const HASHES: Readonly<Record<string, string>> = {
  '2a864886f70d010104': 'sha256',
  '2a864886f70d010105': 'sha256',
  '2a8648ce3d0401': 'sha256',
  '2a864886f70d01010b': 'sha256',
  '2a864886f70d01010c': 'sha384',
  '2a864886f70d01010d': 'sha512',
  '2a8648ce3d040302': 'sha256',
  '2a8648ce3d040303': 'sha384',
  '2a8648ce3d040304': 'sha512',
};

/** The hash of a certificate in DER; undefined if RFC 5929 defines none for its signature. */
export function endPointOf(certificate: Uint8Array): Uint8Array | undefined {
  const whole = elementAt(certificate, 0);
  const signed = whole && elementAt(certificate, whole.start);
  const algorithm = signed && elementAt(certificate, signed.end);
  const name = algorithm && elementAt(certificate, algorithm.start);
  if (name === undefined) return undefined;
  const hash = HASHES[Buffer.from(certificate.subarray(name.start, name.end)).toString('hex')];
  return hash === undefined ? undefined : createHash(hash).update(certificate).digest();
}

/** The range of the content of the DER element that begins at `at`. */
function elementAt(bytes: Uint8Array, at: number): { start: number; end: number } | undefined {
  const first = bytes[at + 1];
  if (first === undefined) return undefined;
  if (first < 0x80) return { start: at + 2, end: at + 2 + first };
  const digits = first & 0x7f;
  let length = 0;
  for (let index = 0; index < digits; index += 1) length = length * 256 + (bytes[at + 2 + index] ?? 0);
  const start = at + 2 + digits;
  return start + length > bytes.length ? undefined : { start, end: start + length };
}
