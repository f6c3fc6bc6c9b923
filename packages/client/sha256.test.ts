import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { createSha256 } from './sha256.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function digest(...chunks: Uint8Array[]): string {
  const sha256 = createSha256();
  for (const chunk of chunks) sha256.update(chunk);
  return hex(sha256.digest());
}

async function expected(bytes: Uint8Array): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>)));
}

describe('sha256', () => {
  test('the vectors of FIPS 180-4', () => {
    const text = (value: string): Uint8Array => new TextEncoder().encode(value);
    expect(digest()).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
    expect(digest(text('abc'))).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(digest(text('abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq'))).toBe(
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    );
    expect(digest(text('a'.repeat(1_000_000)))).toBe(
      'cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0',
    );
  });

  test('every length around the block boundaries', async () => {
    for (let length = 0; length <= 260; length += 1) {
      const bytes = Uint8Array.from({ length }, (_, index) => (index * 31 + length) & 0xff);
      expect(digest(bytes)).toBe(await expected(bytes));
    }
  });

  test('any bytes in any pieces', async () => {
    const pieces = fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(pieces, async (chunks) => {
        expect(digest(...chunks)).toBe(await expected(Buffer.concat(chunks)));
      }),
    );
  });

  test('a piece may be overwritten once it was taken', async () => {
    const buffer = new Uint8Array(100).fill(1);
    const sha256 = createSha256();
    sha256.update(buffer);
    buffer.fill(2);
    sha256.update(buffer);
    expect(hex(sha256.digest())).toBe(
      await expected(Uint8Array.from([...Array(100).fill(1), ...Array(100).fill(2)])),
    );
  });

  test('a finished digest takes nothing more', () => {
    const sha256 = createSha256();
    sha256.digest();
    expect(() => sha256.update(new Uint8Array(1))).toThrow('finished');
    expect(() => sha256.digest()).toThrow('finished');
  });
});
