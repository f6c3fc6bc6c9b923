import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { ServeError } from '../errors.ts';
import { createSigner, folderSecret } from './signer.ts';

const openSigner = async (dataDir: string) => createSigner(await folderSecret(dataDir).read());

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-signer-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('signer', () => {
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

  test('keeps its secret with the data, private, whoever of several opens it first', async () => {
    const signers = await Promise.all(Array.from({ length: 8 }, () => openSigner(folder)));
    const [first, ...others] = signers.map((signer) =>
      Buffer.from(signer.sign('cursor', 'x')).toString('hex'),
    );
    expect(new Set(others)).toEqual(new Set([first as string]));
    expect(await readdir(folder)).toEqual(['secret.key']);
    const { mode, size } = await stat(join(folder, 'secret.key'));
    expect([mode & 0o777, size]).toEqual([0o600, 32]);
    const again = await openSigner(folder);
    expect(again.verify('cursor', 'x', Buffer.from(first as string, 'hex'))).toBe(true);
  });

  test('a secret that is damaged is neither used nor replaced', async () => {
    const path = join(folder, 'secret.key');
    await openSigner(folder);
    const secret = await readFile(path);
    for (const damaged of [secret.subarray(1), Buffer.alloc(0), Buffer.concat([secret, secret])]) {
      await chmod(path, 0o600);
      await writeFile(path, damaged);
      await expect(openSigner(folder)).rejects.toThrow(ServeError);
      expect(Buffer.compare(await readFile(path), damaged)).toBe(0);
    }
  });
});
