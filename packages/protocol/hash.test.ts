import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { bytesToHash, hashesToRefs, hashToBytes, isHash, refsToHashes } from './hash.ts';

const digest = fc.uint8Array({ minLength: 32, maxLength: 32 });

describe('hash', () => {
  test('is 64 lowercase hexadecimal characters and nothing else', () => {
    const good = '0123456789abcdef'.repeat(4);
    expect(isHash(good)).toBe(true);
    for (const bad of [
      '',
      good.slice(1),
      `${good}0`,
      good.toUpperCase(),
      `${good.slice(1)}g`,
      `${good}\n`,
      ` ${good.slice(1)}`,
      `${good.slice(1)}٣`,
      undefined,
      null,
      64,
      [good],
    ]) {
      expect(isHash(bad)).toBe(false);
    }
  });

  test('goes to bytes and back', () => {
    fc.assert(
      fc.property(digest, (bytes) => {
        const hash = bytesToHash(bytes);
        expect(hash).toBe(Buffer.from(bytes).toString('hex'));
        expect(isHash(hash)).toBe(true);
        expect(hashToBytes(hash)).toEqual(bytes);
      }),
    );
  });

  test('refs keep order and duplicates both ways', () => {
    fc.assert(
      fc.property(fc.array(digest, { maxLength: 8 }), (digests) => {
        const hashes = [...digests, ...digests].map(bytesToHash);
        const refs = hashesToRefs(hashes);
        expect(refs.length).toBe(hashes.length * 32);
        expect(refsToHashes(refs)).toEqual(hashes);
      }),
    );
  });

  test('makes the same text where the engine has no hexadecimal of its own', async () => {
    const prototype = Uint8Array.prototype as { toHex?: unknown };
    const descriptor = Object.getOwnPropertyDescriptor(prototype, 'toHex');
    delete prototype.toHex;
    try {
      const specifier = './hash.ts?without-native-hex';
      const plain = (await import(specifier)) as typeof import('./hash.ts');
      expect(plain.bytesToHash).not.toBe(bytesToHash);
      fc.assert(
        fc.property(fc.array(digest, { minLength: 1, maxLength: 3 }), (digests) => {
          const hashes = digests.map((bytes) => Buffer.from(bytes).toString('hex'));
          expect(plain.refsToHashes(hashesToRefs(hashes))).toEqual(hashes);
        }),
      );
    } finally {
      if (descriptor !== undefined) Object.defineProperty(prototype, 'toHex', descriptor);
    }
  });

  test('refuses what is no digest', () => {
    expect(() => bytesToHash(new Uint8Array(31))).toThrow(RangeError);
    expect(() => bytesToHash(new Uint8Array(33))).toThrow(RangeError);
    expect(() => hashToBytes('AB'.repeat(32))).toThrow(RangeError);
    for (const bad of [
      '',
      'a'.repeat(63),
      'a'.repeat(65),
      'a'.repeat(128),
      `${'a'.repeat(63)}g`,
      `${'a'.repeat(63)}ａ`,
    ]) {
      expect(() => hashToBytes(bad)).toThrow(RangeError);
    }
    expect(() => hashesToRefs(['ab'.repeat(32), 'ab'])).toThrow(RangeError);
    expect(() => refsToHashes(new Uint8Array(33))).toThrow(RangeError);
  });
});
