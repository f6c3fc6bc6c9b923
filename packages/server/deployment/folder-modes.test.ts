import { afterAll, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tightenModes } from './folder-owner.ts';

const root = mkdtempSync(join(tmpdir(), 'folder-modes-'));
afterAll(() => rmSync(root, { recursive: true }));

const modeOf = (path: string): number => statSync(path).mode & 0o777;

function makeFolder(name: string): string {
  const folder = join(root, name);
  mkdirSync(join(folder, 'content'), { recursive: true });
  for (const file of ['holdfast.db', 'registry.db-wal', 'secret.key']) writeFileSync(join(folder, file), '');
  for (const file of ['holdfast.db', 'registry.db-wal']) chmodSync(join(folder, file), 0o644);
  chmodSync(join(folder, 'secret.key'), 0o600);
  for (const each of [folder, join(folder, 'content')]) chmodSync(each, 0o755);
  return folder;
}

test('a folder with nothing but our files becomes private, and is named', () => {
  const folder = makeFolder('ours');
  const { tightened, open } = tightenModes(folder);
  expect(tightened.toSorted()).toEqual(
    [folder, ...['content', 'holdfast.db', 'registry.db-wal'].map((name) => join(folder, name))].toSorted(),
  );
  expect(open).toEqual([]);
  expect([modeOf(folder), modeOf(join(folder, 'content')), modeOf(join(folder, 'holdfast.db'))]).toEqual([
    0o700, 0o700, 0o600,
  ]);
  expect(tightenModes(folder)).toEqual({ tightened: [], open: [] });
});

test('a folder that holds other things too keeps its mode and theirs, and is named', () => {
  const folder = makeFolder('shared');
  writeFileSync(join(folder, 'notes.txt'), '');
  chmodSync(join(folder, 'notes.txt'), 0o644);
  // The target of a link is not ours, even if the link has a name of ours.
  symlinkSync(join(folder, 'notes.txt'), join(folder, 'dev-key.jwk'));
  const { tightened, open } = tightenModes(folder);
  expect(open).toEqual([folder]);
  expect(tightened).toHaveLength(3);
  expect([modeOf(folder), modeOf(join(folder, 'notes.txt'))]).toEqual([0o755, 0o644]);
});
