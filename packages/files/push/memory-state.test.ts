/** A state in memory remembers what one on the disk does, whatever happens to the tree between two scans. */
import { afterAll, expect, test } from 'bun:test';
import { lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { toByteString } from '../byte-names.ts';
import { TreeState } from '../state/tree-state.ts';
import { scanOptions } from '../test/scan-options.ts';
import type { DirectoryRow, FolderState } from './folder-state.ts';
import { FolderSupply } from './folder-supply.ts';
import { MemoryState } from './memory-state.ts';
import { type ScannedRoot, scanTree } from './scan-tree.ts';
import { SourceTree } from './source-tree.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-memory-state-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;

type Step =
  | { readonly kind: 'write'; readonly path: string; readonly size: number; readonly seed: number }
  | { readonly kind: 'link'; readonly path: string }
  | { readonly kind: 'remove'; readonly path: string };

// A folder and a file may take each other's place.
const paths = fc.constantFrom('a', 'a/a', 'a/b', 'a/b/c');
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('write' as const),
    path: paths,
    size: fc.constantFrom(10, 300_000, 300_000, 300_000, 5_000_000),
    seed: fc.integer({ min: 0, max: 3 }),
  }),
  fc.record({ kind: fc.constant('link' as const), path: paths }),
  fc.record({ kind: fc.constant('remove' as const), path: paths }),
);

function take(tree: string, step: Step, second: number): void {
  const path = join(tree, step.path);
  const parts = step.path.split('/');
  for (const at of parts.keys()) {
    const above = join(tree, ...parts.slice(0, at));
    if (!lstatSync(above, { throwIfNoEntry: false })?.isDirectory()) rmSync(above, { force: true });
    mkdirSync(above, { recursive: true });
  }
  rmSync(path, { recursive: true, force: true });
  if (step.kind === 'link') symlinkSync('elsewhere', path);
  if (step.kind !== 'write') return;
  writeFileSync(path, new Uint8Array(step.size).fill(step.seed));
  utimesSync(path, second, second);
}

function scan(tree: string, state: FolderState): Promise<ScannedRoot> {
  return scanTree(scanOptions(tree, state));
}

/** All nodes as a push would send them to a Space that has nothing. */
async function listNodes(tree: string, scanned: ScannedRoot, state: FolderState): Promise<string[]> {
  const supply = new FolderSupply(new SourceTree(toByteString(tree)), scanned, state);
  const hashes: string[] = [];
  for (const queue = [supply.root]; queue.length > 0; ) {
    const node = queue.pop() as (typeof queue)[number];
    await supply.makeNode(node);
    hashes.push(node.hash);
    queue.push(...(await supply.listChildren(node)));
  }
  return hashes;
}

/** Asks both, and fails where they say different things. Each has ids of its own for directories. */
function pairStates(inMemory: MemoryState, onDisk: TreeState): FolderState {
  const idsOnDisk = new Map([[0, 0]]);
  const withoutId = (answer: unknown): unknown =>
    typeof answer === 'object' && answer !== null && 'id' in answer ? { ...answer, id: 0 } : answer;
  return new Proxy<FolderState>(inMemory, {
    get: (_, method: keyof MemoryState) => {
      return (...args: unknown[]) => {
        const [first, ...rest] = args;
        const sameArgs = args.length === 0 ? [] : [idsOnDisk.get(first as number), ...rest];
        const call = (state: FolderState, given: unknown[]) =>
          (state[method as 'findFile'] as unknown as (...all: unknown[]) => unknown).apply(state, given);
        const answer = call(inMemory, args);
        const answerOnDisk = call(onDisk, sameArgs);
        expect([method, withoutId(answer)]).toEqual([method, withoutId(answerOnDisk)]);
        if (method === 'findDirectory' || method === 'addDirectory') {
          const [row, rowOnDisk] = [answer as DirectoryRow | undefined, answerOnDisk as DirectoryRow];
          if (row !== undefined) idsOnDisk.set(row.id, rowOnDisk.id);
        }
        return answer;
      };
    },
  });
}

test('as SQLite remembers it', async () => {
  const rounds = fc.array(fc.array(steps, { maxLength: 3 }), { minLength: 2, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(rounds, async (all) => {
      count += 1;
      const tree = join(folder, `tree ${count}`);
      mkdirSync(tree);
      const onDisk = TreeState.open(`${tree}.sqlite`);
      const state = pairStates(new MemoryState(), onDisk);
      for (const [second, round] of all.entries()) {
        for (const step of round) take(tree, step, second + 1);
        const scanned = await scan(tree, state);
        const nodes = await listNodes(tree, scanned, state);
        expect(nodes).toContain(scanned.hash);
        expect((await scan(tree, new MemoryState())).hash).toBe(scanned.hash);
      }
      onDisk.close();
      rmSync(tree, { recursive: true });
    }),
    { numRuns: 40 },
  );
}, 300_000);

test('reads again only what changed', async () => {
  const tree = join(folder, 'tree');
  mkdirSync(join(tree, 'below'), { recursive: true });
  for (const name of ['one', 'two', 'below/three']) writeFileSync(join(tree, name), name);
  const state = new MemoryState();
  await Bun.sleep(200);
  const first = await scan(tree, state);
  expect([first.readCount, (await scan(tree, state)).readCount]).toEqual([3, 0]);
  writeFileSync(join(tree, 'two'), 'changed');
  const third = await scan(tree, state);
  expect([third.readCount, third.hash === first.hash]).toEqual([1, false]);
  expect(third.hash).toBe((await scan(tree, new MemoryState())).hash);
});
