import { expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import { hmacSha256 } from './hmac.ts';

test('a key off the curve, which somebody else imported, spoils no signature', async () => {
  const make = async (): Promise<JsonWebKey> => {
    const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, [
      'verify',
      'sign',
    ]);
    return crypto.subtle.exportKey('jwk', pair.publicKey);
  };
  const [key, other] = [await make(), await make()];
  const secret = new Uint8Array(32).fill(7);
  const mixed = { ...key, x: other.x as string };
  const imported = crypto.subtle.importKey('jwk', mixed, { name: 'ECDSA', namedCurve: 'P-256' }, true, [
    'verify',
  ]);
  expect(await imported.catch(() => 'refused')).toBe('refused');
  const expected = createHmac('sha256', secret).update('text').digest('hex');
  expect(hmacSha256(secret, 'text').digest('hex')).toBe(expected);
});
