import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSigner } from '../core/signer.ts';
import { ServeError } from '../errors.ts';
import { folderSecret } from './folder-secret.ts';

const openSigner = async (dataDir: string) => createSigner((await folderSecret(dataDir).read())[0].secret);

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-signer-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the secret of a folder', () => {
  test('keeps its secret with the data, private, whoever of several opens it first', async () => {
    const signers = await Promise.all(Array.from({ length: 8 }, () => openSigner(folder)));
    const [first, ...others] = signers.map((signer) =>
      Buffer.from(signer.sign('cursor', 'x')).toString('hex'),
    );
    expect(new Set(others)).toEqual(new Set([first as string]));
    expect(await readdir(folder)).toEqual(['secret.key']);
    expect((await stat(join(folder, 'secret.key'))).mode & 0o777).toBe(0o600);
    const again = await openSigner(folder);
    expect(again.verify('cursor', 'x', Buffer.from(first as string, 'hex'))).toBe(true);
  });

  test('one wrong bit anywhere in its file changes no secret', async () => {
    const path = join(folder, 'secret.key');
    const [{ secret }] = await folderSecret(folder).read();
    const kept = await readFile(path);
    for (let at = 0; at < kept.length; at += 1) {
      const wrong = Buffer.from(kept);
      wrong[at] = (wrong[at] as number) ^ (1 << (at % 8));
      await writeFile(path, wrong);
      expect([at, (await folderSecret(folder).read())[0].secret]).toEqual([at, secret]);
    }
  });

  test('a bit is searched once for the same file, however often it is read', async () => {
    const path = join(folder, 'secret.key');
    const shared = folderSecret(folder);
    const secrets = await shared.read();
    const kept = await readFile(path);
    for (const bits of [[9], [9, 900]]) {
      const wrong = Buffer.from(kept);
      for (const bit of bits) wrong[bit >> 3] = (wrong[bit >> 3] as number) ^ (1 << (bit & 7));
      await writeFile(path, wrong);
      const hashing = spyOn(Bun.SHA256, 'hash');
      const parsing = spyOn(JSON, 'parse');
      const read = () => shared.find().catch((error: Error) => error.message);
      const first = await read();
      const searched = parsing.mock.calls.length + hashing.mock.calls.length;
      expect(await read()).toEqual(first as never);
      expect([searched > 9, parsing.mock.calls.length + hashing.mock.calls.length]).toEqual([true, searched]);
      parsing.mockRestore();
      hashing.mockRestore();
      if (bits.length === 1) expect(first).toEqual(secrets as never);
      else expect(first).toContain('is damaged');
    }
    await writeFile(path, kept);
    expect(await shared.find()).toEqual(secrets);
  });

  test('a secret of an earlier version, 32 bytes, is used as it is', async () => {
    const secret = Buffer.alloc(32, 7);
    await writeFile(join(folder, 'secret.key'), secret, { mode: 0o600 });
    expect((await folderSecret(folder).read())[0].secret).toEqual(new Uint8Array(secret));
  });

  test('a secret that is damaged is neither used nor replaced', async () => {
    const path = join(folder, 'secret.key');
    await openSigner(folder);
    const secret = await readFile(path);
    const cut = [0, 31, 32, 33].map((length) => secret.subarray(0, length));
    for (const damaged of [...cut, secret.subarray(1), Buffer.concat([secret, secret])]) {
      await chmod(path, 0o600);
      await writeFile(path, damaged);
      await expect(openSigner(folder)).rejects.toThrow(ServeError);
      expect(Buffer.compare(await readFile(path), damaged)).toBe(0);
    }
  });
});
