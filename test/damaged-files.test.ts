/** Small files of ours that a disk changed: each is read as it was, or refused in one line that names it, whatever byte is wrong. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { createPublicKey, verify } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readLastBackup } from '../packages/server/backup/last-backup.ts';
import { makeBackup } from '../packages/server/backup/make-backup.ts';
import { Repository } from '../packages/server/backup/repository.ts';
import { folderSecret } from '../packages/server/deployment/folder-secret.ts';
import { HeldFolder } from '../packages/server/deployment/held-folder.ts';
import { makeRegistry } from '../packages/server/deployment/registry.ts';
import { openEmbeddedEngine } from '../packages/server/deployment/test/embedded-engine-fixture.ts';
import { loadTokens } from '../packages/server/operator/operator-tokens.ts';
import { grantDevAccess, openDevApp } from '../packages/server/serve/dev-app.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('damaged-files', { fast: true });
const [dataDir, backup] = [join(folder.path, 'data'), join(folder.path, 'backup')];
const umask = process.umask();
const tokenPath = join(dataDir, 'operator-token');

beforeAll(async () => {
  mkdirSync(dataDir);
  await openRows();
  await folderSecret(dataDir).read();
  await readDevAccess();
  writeFileSync(tokenPath, `${'ab'.repeat(32)}\n`, { mode: 0o600 });
  await makeBackup({ dataDir, folder: backup }, { onProgress: () => undefined });
});
afterAll(() => {
  process.umask(umask);
  folder.remove();
});

async function openRows(): Promise<void> {
  const onFatal = (error: Error): never => {
    throw error;
  };
  await (await openEmbeddedEngine({ dataDir, workers: 1, clock: Date, onFatal })).close();
}

/** Whether the registered key verifies a new token. */
async function readDevAccess(): Promise<unknown> {
  const place = { kind: 'folder', dataDir } as const;
  await openDevApp(dataDir, place);
  const registry = await makeRegistry(place);
  try {
    const [app] = await registry.listApps();
    if (app?.keys.kind !== 'static') throw new Error('the demo App has no key');
    const { token } = await grantDevAccess(dataDir, 'http://127.0.0.1:1');
    const signed = token.slice(0, token.lastIndexOf('.'));
    const signature = Buffer.from(token.slice(signed.length + 1), 'base64url');
    const key = createPublicKey({ key: JSON.parse(app.keys.jwks).keys[0], format: 'jwk' });
    return verify('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' }, signature);
  } finally {
    await registry.close();
  }
}

function readManifest(): unknown {
  const held = HeldFolder.hold(backup);
  try {
    return new Repository(held).getManifest();
  } finally {
    held.close();
  }
}

/** What is read of the file, and what is in it that only a person can know. */
const FILES: Readonly<Record<string, readonly [read: () => unknown, isGiven?: boolean]>> = {
  'data/secret.key': [() => folderSecret(dataDir).read()],
  'data/dev-key.jwk': [readDevAccess],
  'data/content/STORE': [openRows],
  'data/operator-token': [
    async () => (await loadTokens(tokenPath)).entries.map(({ digest }) => digest),
    true,
  ],
  'data/last-backup': [() => readLastBackup(dataDir), true],
  'backup/BACKUP': [readManifest],
};

function* damagesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 1) {
    const wrong = Buffer.from(bytes);
    wrong[at] = (wrong[at] as number) ^ (1 << ((at * 5) % 8));
    yield wrong;
  }
  for (let length = 0; length < bytes.length; length += 1 + (length >> 2)) yield bytes.subarray(0, length);
  yield Buffer.concat([bytes, Buffer.from('\u001b[31mx')]);
}

test.each(Object.entries(FILES))(
  '%s',
  async (name, [read, isGiven = false]) => {
    const path = join(folder.path, name);
    const bytes = readFileSync(path);
    const right = await read();
    for (const damaged of damagesOf(bytes)) {
      writeFileSync(path, damaged);
      let message: string | undefined;
      let found: unknown;
      try {
        found = await read();
      } catch (error) {
        expect((error as Error).name).toMatch(/^(ServeError|ConfigError|EngineRefused)$/);
        message = (error as Error).message;
      }
      const [shown, kept] = [damaged.toString('latin1'), readFileSync(path)];
      if (message === undefined) {
        if (!isGiven) expect([shown, found]).toEqual([shown, right]);
      } else {
        expect(message).toMatch(/^\P{Cc}+$/u);
        expect(message).toContain(name.split('/').at(-1) as string);
      }
      expect([shown, kept.equals(damaged)]).toEqual([shown, true]);
    }
    writeFileSync(path, bytes);
    expect(await read()).toEqual(right);
  },
  TEST_MS_MAX,
);
