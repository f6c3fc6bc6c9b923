/** Checksums over a state: the database does not notice a flipped bit, and a wrong total or hash would give another root. */
import { TreeStateLostError } from '../push/state-failure.ts';

const SUM_BYTES = 8;

/** `bytes` with a sum over them and `key` at the end. */
export function seal(key: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const sealed = new Uint8Array(bytes.length + SUM_BYTES);
  sealed.set(bytes);
  new DataView(sealed.buffer).setBigUint64(bytes.length, sumOf(key, bytes));
  return sealed;
}

/** Opens the value sealed under `key`. Throws TreeStateLostError when it is anything else. */
export function unseal(key: string, sealed: Uint8Array): Uint8Array {
  const bytes = sealed.subarray(0, Math.max(0, sealed.length - SUM_BYTES));
  if (sealed.length >= SUM_BYTES) {
    const view = new DataView(sealed.buffer, sealed.byteOffset, sealed.length);
    if (view.getBigUint64(bytes.length) === sumOf(key, bytes)) return bytes;
  }
  throw new TreeStateLostError('damaged', 'a row has another sum than it was written with');
}

function sumOf(key: string, bytes: Uint8Array): bigint {
  return Bun.hash.xxHash3(bytes, Bun.hash.xxHash3(key));
}
