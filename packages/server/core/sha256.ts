/** The digest that names nodes and identifies payloads; native, because it runs on every byte. */

/** 64 hexadecimal digits */
export function sha256Hex(data: Uint8Array | string): string {
  return Bun.SHA256.hash(data as string, 'hex');
}

/** 32 bytes */
export function sha256(data: Uint8Array | string): Uint8Array {
  return new Uint8Array(new Bun.CryptoHasher('sha256').update(data).digest().buffer);
}
