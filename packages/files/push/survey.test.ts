/** Entries that cannot be stored are reported before gigabytes are read; all others are stored. */
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProgressTotals, SILENT_PROGRESS } from '@holdfast/client/internal';
import { openTemporaryState } from '../state/open-tree-state.ts';
import { scanOptions } from '../test/scan-options.ts';
import { MemoryState } from './memory-state.ts';
import { NameList } from './name-list.ts';
import { type ScannedRoot, scanTree } from './scan-tree.ts';
import type { SourceTree } from './source-tree.ts';
import { Survey } from './survey.ts';

const FILE_BYTES = 8 * 1024 * 1024;
const FILES = 8;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-survey-'));
  mkdirSync(join(folder, 'z'));
  for (let index = 0; index < FILES; index += 1) {
    writeFileSync(join(folder, `a${index}`), Buffer.alloc(FILE_BYTES, index));
  }
  Bun.spawnSync(['mkfifo', join(folder, 'z', 'pipe'), join(folder, 'z', 'other')]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Scanned {
  readonly root: ScannedRoot | Error;
  readonly bytesRead: number;
  readonly surveyed: ProgressTotals;
}

async function scan(skipsSpecial: boolean): Promise<Scanned> {
  const state = openTemporaryState();
  let bytesRead = 0;
  let surveyed: ProgressTotals = {};
  const root = await scanTree({
    ...scanOptions(folder, state),
    ignoreFileNames: ['.holdfastignore'],
    skipsSpecial,
    progress: {
      ...SILENT_PROGRESS,
      expect: (totals) => {
        bytesRead = Math.max(bytesRead, totals.bytes ?? 0);
        if (totals.surveyedBytes !== undefined) surveyed = totals;
      },
    },
  }).catch((error: Error) => error);
  state.close();
  return { root, bytesRead, surveyed };
}

test('a pipe behind large files stops the scan before they are all read, and every problem is named', async () => {
  const { root, bytesRead } = await scan(false);
  expect(root).toMatchObject({ name: 'ScanError' });
  expect((root as Error).message).toContain(
    '2 entries cannot be stored: z/other (named pipe), z/pipe (named pipe)',
  );
  expect(bytesRead).toBeLessThan((FILES * FILE_BYTES) / 2);
});

test('with special files to be left out, or ignored, nothing stops it', async () => {
  expect((await scan(true)).root).toMatchObject({ bytes: FILES * FILE_BYTES, entryCount: FILES + 2 });
  const { root, surveyed } = await scan(true);
  expect(surveyed).toEqual({
    surveyedFiles: (root as ScannedRoot).entryCount,
    surveyedBytes: FILES * FILE_BYTES,
  });
  writeFileSync(join(folder, '.holdfastignore'), 'z\n');
  expect((await scan(false)).root).toMatchObject({ entryCount: FILES + 2 });
});

test('a folder whose path is longer than the system takes is stored all the same', async () => {
  const half = `${'n'.repeat(200)}/`.repeat(12);
  const [upper, lower] = [join(folder, 'y', half), mkdtempSync(join(tmpdir(), 'holdfast-survey-'))];
  mkdirSync(upper, { recursive: true });
  mkdirSync(join(lower, half), { recursive: true });
  writeFileSync(join(lower, half, 'file'), 'deep');
  const deep = join(upper, 'deep');
  renameSync(lower, deep);
  try {
    const { root } = await scan(true);
    // The root, the large files and their patterns; y, deep and the folders of both halves; the file.
    expect(root).toMatchObject({ entryCount: FILES + 2 + 2 + 2 * 12 + 1, leftOut: [] });
  } finally {
    renameSync(deep, lower);
    rmSync(lower, { recursive: true });
    rmSync(join(folder, 'y'), { recursive: true });
  }
});

/** Folders of one name, one in another. */
function makeDeepTree(depth: number): SourceTree {
  const stats = statSync(folder);
  const at = (path: string) => ({
    list: () => new NameList(path.length < 2 * depth ? ['d'] : []),
    lookAt: () => stats,
  });
  return { lookAtRoot: () => stats, folder: at } as unknown as SourceTree;
}

test('many thousand folders, one in another, need no stack of that depth', async () => {
  const tree = makeDeepTree(8_000);
  const surveyed: ProgressTotals = {};
  const expecting = {
    expect: (totals: ProgressTotals): void => {
      Object.assign(surveyed, totals);
    },
    item: () => undefined,
  };
  // Time stands still, so that no pause empties the stack.
  const clock = spyOn(performance, 'now').mockReturnValue(0);
  try {
    await new Survey({ ...scanOptions(folder, new MemoryState()), tree, progress: expecting }).make();
  } finally {
    clock.mockRestore();
  }
  expect(surveyed.surveyedFiles).toBe(8_000 + 2);
});

test('a survey that takes long shows signs of life', async () => {
  const items: unknown[] = [];
  const progress = { expect: () => undefined, item: (item: unknown) => void items.push(item) };
  let now = 0;
  const clock = spyOn(performance, 'now').mockImplementation(() => {
    now += 60_000;
    return now;
  });
  try {
    const tree = makeDeepTree(2);
    await new Survey({ ...scanOptions(folder, new MemoryState()), tree, progress }).make();
  } finally {
    clock.mockRestore();
  }
  expect(items).toEqual(['d', 'd/d', 'd/d/d']);
});
