/**
 * Files of any size in any mix, with memory from far too little to plenty: every job comes to its end, and what comes out is
 * what went in. The sizes that matter are those of files that fit in one chunk and still are of several.
 */
import { afterAll, expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import {
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  createBundle,
  createPatientSource,
  importBundle,
  pushTree,
  verifyTree,
} from '@holdfast/client/internal';
import fc from 'fast-check';
import { buildPlan, directory, file } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { FakeSpace } from '../../client/test/fake-space-fixture.ts';
import { freshPaths, readStanding, standingOf } from '../test/pull-fixture.ts';
import { ChunkMemory } from './chunk-memory.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('sizes', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

const FILE_BYTES_MAX = 12_000_000;
/** The limit of one tree, so that a run stays short. */
const TREE_BYTES_MAX = 40_000_000;

interface Room {
  /** of the job, for nodes on their way */
  readonly memoryBytesMax: number;
  /** requests at once */
  readonly parallelMax: number;
}

async function checkAllJobs(sizes: readonly number[], { memoryBytesMax, parallelMax }: Room): Promise<void> {
  const plan = directory(Object.fromEntries(sizes.map((size, at) => [`f${at}`, file(size, at)])));
  const { root, tree } = await buildPlan(plan);
  const space = new FakeSpace();
  await pushTree(space.client(), tree.supply(root), { memoryBytesMax, parallelMax });

  const source = createPatientSource(space.client(), { parallelMax, memory: new SpoiltMemory() });
  const target = fresh();
  await pullToPath(source, root, target, { memoryBytesMax });
  expect(readStanding(target)).toEqual(standingOf(plan));
  rmSync(target, { recursive: true });

  expect((await verifyTree(source, root)).faults).toBe(0);

  const copy = new FakeSpace();
  const bundle = createBundle(space.client(), [root], { memoryBytesMax });
  await importBundle(copy.client(), bundle, { memoryBytesMax });
  expect(new Set(copy.nodes.keys())).toEqual(new Set(space.nodes.keys()));
}

/** The memory that the command line uses, but bytes that were given back are overwritten at once. */
class SpoiltMemory extends ChunkMemory {
  readonly #taken = new WeakSet<Uint8Array>();

  override take(length: number): Uint8Array<ArrayBuffer> {
    const bytes = super.take(length);
    this.#taken.add(bytes);
    return bytes;
  }

  override give(bytes: Uint8Array): void {
    bytes.fill(0xee);
    // The pieces of this space are its own.
    if (this.#taken.has(bytes)) super.give(bytes);
  }
}

const nearLimits = [0, 1, CHUNK_BYTES_MIN, 1_048_576, CHUNK_BYTES_MAX, 2 * CHUNK_BYTES_MAX].flatMap((size) =>
  [size - 1, size, size + 1].filter((near) => near >= 0),
);

test.each([
  ['five of 2 MB', [2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000]],
  ['eight of 3.5 MB', Array.from({ length: 8 }, () => 3_500_000)],
  ['around every limit', nearLimits],
])('%s', async (_, sizes) => {
  await checkAllJobs(sizes, { memoryBytesMax: 8 * 1024 * 1024, parallelMax: 32 });
  await checkAllJobs(sizes, { memoryBytesMax: 1, parallelMax: 1 });
});

test('any mix of sizes, in any room', async () => {
  const size = fc.oneof(
    fc.integer({ min: 0, max: FILE_BYTES_MAX }),
    fc.integer({ min: CHUNK_BYTES_MIN, max: CHUNK_BYTES_MAX }),
    fc.constantFrom(...nearLimits),
  );
  const mix = fc.array(size, { minLength: 1, maxLength: 60 }).map((sizes) => {
    let left = TREE_BYTES_MAX;
    return sizes.filter((bytes) => {
      left -= bytes;
      return left >= 0;
    });
  });
  const room = fc.record({
    memoryBytesMax: fc.oneof(fc.integer({ min: 1, max: 5_000_000 }), fc.integer({ min: 1, max: 64_000_000 })),
    parallelMax: fc.integer({ min: 1, max: 64 }),
  });
  await fc.assert(fc.asyncProperty(mix, room, checkAllJobs), { numRuns: 5 });
});
