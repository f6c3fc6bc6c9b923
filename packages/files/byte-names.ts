/** Names of files as strings whose characters are the raw bytes: names that are no UTF-8 survive, and byte order is string order. */
import type { ByteString } from './byte-string.ts';

export type { ByteString };

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
const ASCII = /^[\x00-\x7f]*$/;

export function toByteString(text: string): ByteString {
  return ASCII.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

export function bytesOf(name: ByteString): Uint8Array {
  return Buffer.from(name, 'latin1');
}

export function byteStringOf(bytes: Uint8Array): ByteString {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

/** The path in a form that file functions take. */
export function toFsPath(path: ByteString): string | Buffer {
  return ASCII.test(path) ? path : Buffer.from(path, 'latin1');
}

/** The text, or undefined when the bytes are no UTF-8. */
export function findText(name: ByteString): string | undefined {
  if (ASCII.test(name)) return name;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytesOf(name));
  } catch {
    return undefined;
  }
}

/** For people: bytes that are no UTF-8 show as replacement characters. */
export function displayName(name: ByteString): string {
  return ASCII.test(name) ? name : Buffer.from(name, 'latin1').toString('utf8');
}

export function joinPath(folder: ByteString, name: ByteString): ByteString {
  return folder === '' ? name : `${folder}/${name}`;
}
