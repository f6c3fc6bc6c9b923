/** The progress of a pull and a verification: the number of entries, and all of them at the end. */
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ProgressCounters,
  type ProgressReporter,
  type ProgressTotals,
  SILENT_PROGRESS,
  VerificationError,
  verifyTree,
} from '@holdfast/client/internal';
import fc from 'fast-check';
import { directory, file, makeLargePlans, type Plan, plans } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { freshPaths, makeSource } from '../test/pull-fixture.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull-progress', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

/** Adds up what it is told. */
function counting(): {
  progress: ProgressReporter;
  files(): number;
  bytes(): number;
  totals(): ProgressTotals;
} {
  const sum = { files: 0, bytes: 0 };
  let totals: ProgressTotals = {};
  const progress = {
    ...SILENT_PROGRESS,
    count: ({ files = 0, bytes = 0 }: Partial<ProgressCounters>) => {
      sum.files += files;
      sum.bytes += bytes;
    },
    expect: (more: ProgressTotals) => {
      totals = { ...totals, ...more };
    },
  };
  return { progress, files: () => sum.files, bytes: () => sum.bytes, totals: () => totals };
}

/** Entries as a push counts them: files, folders and links, the root among them. */
function countEntries(plan: Plan): number {
  if (plan.kind !== 'directory') return 1;
  return [...plan.entries.values()].reduce((total, below) => total + countEntries(below), 1);
}

async function expectHonest(plan: Plan): Promise<void> {
  const { root, source } = await makeSource(plan);
  const entries = countEntries(plan);
  const target = fresh();
  // The second finds everything there.
  for (const _ of [1, 2]) {
    const pulled = counting();
    const { bytes } = await pullToPath(source, root, target, { progress: pulled.progress });
    expect(pulled.totals()).toEqual({ files: entries, bytes });
    expect([pulled.files(), pulled.bytes()]).toEqual([entries, bytes]);
  }
  rmSync(target, { recursive: true });
  const verified = counting();
  const result = await verifyTree(source, root, { progress: verified.progress });
  expect([verified.totals().files, verified.files()]).toEqual([entries, entries]);
  expect(verified.bytes()).toBe(result.bytes);
}

test('a verification deals with all entries, also with those that it cannot read', async () => {
  const below = directory({ e: file(100), f: file(200), g: directory({ h: file(300) }) });
  const { root, source } = await makeSource(directory({ a: file(400), d: below, z: file(500) }));
  const lost = (await makeSource(below)).root;
  const verified = counting();
  source.onRead = (hash) => {
    if (hash === lost) throw new VerificationError(`${hash}: planted`, 'readContent', hash);
  };
  const { faults } = await verifyTree(source, root, { progress: verified.progress });
  expect([faults, verified.files(), verified.totals().files]).toEqual([1, 8, 8]);
});

test('all count the same entries, and come to as many as they said', async () => {
  await fc.assert(fc.asyncProperty(plans, expectHonest), { numRuns: 12 });
});

test.each(Object.entries(makeLargePlans()))('of a tree that is %s too', async (_, plan) => {
  await expectHonest(plan);
});

test('of a tree with the same things in many places too', async () => {
  const same = directory({ a: file(0), b: file(0), c: file(100), d: directory({ e: file(100) }) });
  await expectHonest(directory({ one: same, two: same, three: directory({ four: same, a: file(0) }) }));
});

test('a tree that is there in part is counted once', async () => {
  const plan = directory({ a: directory({ b: file(10) }), c: directory(), d: file(20) });
  const { root, source } = await makeSource(plan);
  const target = fresh();
  mkdirSync(join(target, 'a'), { recursive: true });
  const pulled = counting();
  await pullToPath(source, root, target, { progress: pulled.progress });
  expect([pulled.files(), pulled.totals().files]).toEqual([5, 5]);
});

test('of a part of a tree no total is said', async () => {
  const { root, source } = await makeSource(directory({ a: file(10), b: file(20) }));
  const pulled = counting();
  await pullToPath(source, root, fresh(), { progress: pulled.progress, paths: [[Buffer.from('a')]] });
  expect([pulled.totals(), pulled.files()]).toEqual([{}, 1]);
});
