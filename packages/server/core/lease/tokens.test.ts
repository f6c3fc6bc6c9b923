/** What the server signs and later takes back from untrusted hands: upload tokens and cursors. */
import { expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import fc from 'fast-check';
import type { SigningPurpose } from '../ports.ts';
import { formatRootRefCursor, parseRootRefCursor } from '../refs/list-root-refs.ts';
import { createSigner } from '../signer.ts';
import { parseUploadToken, signUploadToken } from './upload-token.ts';

const signer = createSigner(new Uint8Array(32).fill(7));
const hmac = (purpose: SigningPurpose, message: string): Buffer => Buffer.from(signer.sign(purpose, message));

const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const id = fc
  .string({ minLength: 1, maxLength: 40, unit: 'binary' })
  .filter((text) => text.isWellFormed() && !text.includes('\0'));
const space = fc.record({ appId: id, spaceId: id });
const generation = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const grant = fc.record({ space, hash, generation, expiresAt: fc.maxSafeNat() });

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
  return 'accepted';
}

/** Another text of the same alphabet: one character changed, dropped or added. */
function mutate(text: string, at: number, how: number): string {
  const index = at % text.length;
  const other = text[index] === 'A' ? 'B' : 'A';
  if (how === 0) return text.slice(0, index) + other + text.slice(index + 1);
  if (how === 1) return text.slice(0, index) + text.slice(index + 1);
  return text.slice(0, index) + other + text.slice(index);
}

test('an upload token gives back what was signed', () => {
  fc.assert(
    fc.property(grant, (signed) => {
      expect(parseUploadToken(signer, signUploadToken(signer, signed))).toEqual(signed);
    }),
  );
});

test('an altered upload token is refused', () => {
  fc.assert(
    fc.property(grant, fc.nat(), fc.nat(2), (signed, at, how) => {
      const token = signUploadToken(signer, signed);
      expect(codeOf(() => parseUploadToken(signer, mutate(token, at, how)))).toBe('FORBIDDEN');
    }),
  );
});

test('any text at all is refused, never a crash', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 300, unit: 'binary' }), (text) => {
      expect(codeOf(() => parseUploadToken(signer, text))).toBe('FORBIDDEN');
      expect(codeOf(() => parseRootRefCursor(signer, { appId: 'a', spaceId: 's' }, 'd', text))).toBe(
        'INVALID_REQUEST',
      );
    }),
  );
});

/** As if the server had signed it. */
const tokenOf = (text: string): string => {
  const payload = Buffer.from(text).toString('base64url');
  return `${payload}.${hmac('upload-url', payload).toString('base64url')}`;
};
const FIELDS = ['0'.repeat(32), 'a'.repeat(64), 1, 'app', 'space', ['x', null]] as const;
const withField = (index: number, value: unknown): string =>
  JSON.stringify(FIELDS.with(index, value as never));

test('a token in other characters, of the same bytes, is refused', () => {
  const token = tokenOf(JSON.stringify(FIELDS));
  for (const other of [`${token}=`, `${token.slice(0, -9)}\n${token.slice(-9)}`])
    expect(codeOf(() => parseUploadToken(signer, other))).toBe('FORBIDDEN');
});

test('a signed payload of the right fields is a grant', () => {
  for (const length of [5, 6])
    expect(codeOf(() => parseUploadToken(signer, tokenOf(JSON.stringify(FIELDS.slice(0, length)))))).toBe(
      'accepted',
    );
  expect(codeOf(() => parseUploadToken(signer, tokenOf(withField(1, 'a'.repeat(32)))))).toBe('accepted');
});

test.each([
  ...[[''], ['.'], ['{}'], ['[]'], ['["x"]'], ['null'], ['[1,2,3,4,5]']],
  ...[[JSON.stringify(FIELDS.slice(0, 4))], [JSON.stringify([...FIELDS, 1])]],
  ...[[withField(0, 0)], [withField(0, 'x')], [withField(1, 1)], [withField(1, 'a')]],
  ...[[withField(2, '1')], [withField(2, 1.5)], [withField(3, 1)], [withField(4, null)]],
  ...[
    [withField(5, 'xy')],
    [withField(5, ['x'])],
    [withField(5, ['x', null, 1])],
    [withField(5, [1, 'x'])],
    [withField(5, ['x', 1])],
  ],
  [withField(3, 'x'.repeat(8192))],
])('a signed payload that is no grant is refused: %s', (json) => {
  expect(codeOf(() => parseUploadToken(signer, tokenOf(json)))).toBe('FORBIDDEN');
});

test('a cursor in other characters, of the same bytes, is refused', () => {
  const scope = { appId: 'app', spaceId: 'space' };
  const cursor = formatRootRefCursor(signer, scope, 'docs', { revision: 1, after: 'a'.repeat(64) });
  for (const other of [`${cursor}=`, `${cursor.slice(0, 9)}\n${cursor.slice(9)}`])
    expect(codeOf(() => parseRootRefCursor(signer, scope, 'docs', other))).toBe('INVALID_REQUEST');
});

test('a signed cursor of another version is refused', () => {
  const scope = { appId: 'app', spaceId: 'space' };
  const cursor = formatRootRefCursor(signer, scope, 'docs', { revision: 1, after: 'a'.repeat(64) });
  const payload = Buffer.from(cursor, 'base64url').subarray(0, 41);
  payload[0] = 2;
  const signature = hmac('cursor', `app\0space\0docs\0${payload.toString('hex')}`);
  const other = Buffer.concat([payload, signature]).toString('base64url');
  expect(codeOf(() => parseRootRefCursor(signer, scope, 'docs', other))).toBe('INVALID_REQUEST');
});

test('a cursor gives back its position in its own scope and in no other', () => {
  fc.assert(
    fc.property(space, space, fc.nat(), hash, (own, other, revision, after) => {
      const cursor = formatRootRefCursor(signer, own, 'docs', { revision, after });
      expect(parseRootRefCursor(signer, own, 'docs', cursor)).toEqual({ revision, after });
      expect(codeOf(() => parseRootRefCursor(signer, own, 'other', cursor))).toBe('INVALID_REQUEST');
      if (own.appId !== other.appId || own.spaceId !== other.spaceId) {
        expect(codeOf(() => parseRootRefCursor(signer, other, 'docs', cursor))).toBe('INVALID_REQUEST');
      }
    }),
  );
});

test('an altered cursor is refused', () => {
  fc.assert(
    fc.property(space, fc.nat(), hash, fc.nat(), fc.nat(2), (own, revision, after, at, how) => {
      const cursor = formatRootRefCursor(signer, own, 'docs', { revision, after });
      expect(codeOf(() => parseRootRefCursor(signer, own, 'docs', mutate(cursor, at, how)))).toBe(
        'INVALID_REQUEST',
      );
    }),
  );
});

test('a signature for one purpose is refused for the other', () => {
  const payload = Buffer.from('["x"]').toString('base64url');
  const token = `${payload}.${hmac('cursor', payload).toString('base64url')}`;
  expect(codeOf(() => parseUploadToken(signer, token))).toBe('FORBIDDEN');
});
