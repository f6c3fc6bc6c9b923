import { expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { createSigner } from './signer.ts';

test('verifies what it signed, and nothing else', () => {
  const signer = createSigner(new Uint8Array(32).fill(1));
  const other = createSigner(new Uint8Array(32).fill(2));
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.nat(31),
      fc.integer({ min: 1, max: 255 }),
      (text, at, flip) => {
        const signature = signer.sign('cursor', text);
        expect(signature).toHaveLength(32);
        expect(signer.verify('cursor', text, signature)).toBe(true);
        expect(signer.verify('upload-url', text, signature)).toBe(false);
        expect(signer.verify('cursor', `${text}x`, signature)).toBe(false);
        expect(other.verify('cursor', text, signature)).toBe(false);
        expect(signer.verify('cursor', text, signature.subarray(1))).toBe(false);
        const forged = Uint8Array.from(signature);
        forged[at] = (forged[at] as number) ^ flip;
        expect(signer.verify('cursor', text, forged)).toBe(false);
      },
    ),
  );
});

test('signs as every version did, so that URLs and cursors outlive an upgrade', () => {
  const hmac = (key: Uint8Array, message: string) => createHmac('sha256', key).update(message).digest();
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.string({ unit: 'binary' }),
      (secret, text) => {
        for (const purpose of ['upload-url', 'cursor'] as const) {
          const expected = hmac(hmac(secret, `holdfast v1 ${purpose}`), text);
          expect(Buffer.compare(createSigner(secret).sign(purpose, text), expected)).toBe(0);
        }
      },
    ),
  );
});
