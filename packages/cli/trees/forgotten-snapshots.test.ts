import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readdirSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findForgotten, rememberForgotten } from './forgotten-snapshots.ts';

const former = process.env.XDG_CACHE_HOME;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-forgotten-'));
  process.env.XDG_CACHE_HOME = folder;
});
afterEach(async () => {
  if (former === undefined) delete process.env.XDG_CACHE_HOME;
  else process.env.XDG_CACHE_HOME = former;
  await rm(folder, { recursive: true });
});

test('a pipe in place of what was remembered is passed over at once', () => {
  expect(rememberForgotten('scope', [])).toBe(true);
  const [file] = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const path = join(file?.parentPath ?? '', file?.name ?? '');
  rmSync(path);
  expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);
  expect(findForgotten('scope')).toEqual([]);
});
