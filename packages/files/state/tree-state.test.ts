/** A state is a hint: damaged in any way it is noticed, and the tree it gives is the same or none. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startProgress } from '@holdfast/client';
import { decodeNode, type Hash, hashToBytes } from '@holdfast/protocol';
import fc from 'fast-check';
import { toByteString } from '../byte-names.ts';
import { FolderSupply } from '../push/folder-supply.ts';
import { type ScannedRoot, scanTree } from '../push/scan-tree.ts';
import { SourceTree } from '../push/source-tree.ts';
import { TreeStateLostError } from '../push/state-failure.ts';
import { scanOptions } from '../test/scan-options.ts';
import { TreeState } from './tree-state.ts';

const SCOPE = 'server and domain';
const folder = mkdtempSync(join(tmpdir(), 'holdfast-tree-state-'));
const tree = join(folder, 'tree');
const file = join(folder, 'state.sqlite');
const commit = { requestId: 'request', hash: 'ab'.repeat(32) as Hash };
let reference: ScannedRoot;
let whole: Buffer;

beforeAll(async () => {
  for (const name of ['', 'a', 'a/b', 'c', 'empty']) mkdirSync(join(tree, name), { recursive: true });
  for (let index = 0; index < 60; index += 1) {
    const path = join(tree, ['', 'a', 'a/b', 'c'][index % 4] as string, `file ${index}`);
    writeFileSync(path, `content ${index}`);
  }
  const pieces = Array.from({ length: 40_000 }, (_, at) =>
    new Bun.CryptoHasher('sha256').update(String(at)).digest(),
  );
  writeFileSync(join(tree, 'large'), Buffer.concat(pieces));
  symlinkSync('a/b', join(tree, 'link'));
  // Long ago, so that the state is believed.
  await Bun.sleep(200);
  utimesSync(join(tree, 'large'), 1, 1);
  await Bun.sleep(200);
  const state = TreeState.open(file);
  reference = await scan(state);
  state.keepCommit(SCOPE, commit);
  state.close();
  whole = readFileSync(file);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function scan(state: TreeState): Promise<ScannedRoot> {
  const progress = startProgress({ job: 'push', subject: 'tree', onEvent: () => undefined });
  return scanTree({ ...scanOptions(tree, state), progress });
}

/** Every node of the tree, as a push would send it to a Space that has nothing. */
async function countNodes(state: TreeState, scanned: ScannedRoot): Promise<number> {
  const supply = new FolderSupply(new SourceTree(toByteString(tree)), scanned, state);
  let count = 0;
  for (const queue = [supply.root]; queue.length > 0; count += 1) {
    const node = queue.pop() as (typeof queue)[number];
    const bytes = await supply.makeNode(node);
    decodeNode(bytes);
    expect(new Bun.CryptoHasher('sha256').update(bytes).digest('hex')).toBe(node.hash);
    queue.push(...(await supply.listChildren(node)));
  }
  return count;
}

/** As the command line does it: what is lost is thrown away, and all begins anew. */
async function scanDamaged(bytes: Uint8Array): Promise<{ scanned: ScannedRoot; nodes: number }> {
  for (const suffix of ['-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
  writeFileSync(file, bytes);
  for (let attempt = 1; ; attempt += 1) {
    const state = TreeState.open(file);
    try {
      const pending = state.findCommit(SCOPE);
      if (pending !== undefined) expect(pending).toEqual(commit);
      const scanned = await scan(state);
      return { scanned, nodes: await countNodes(state, scanned) };
    } catch (error) {
      if (!(error instanceof TreeStateLostError) || attempt === 2) throw error;
      expect(error.reason).toBe('damaged');
      state.discard();
    } finally {
      state.close();
    }
  }
}

describe('TreeState', () => {
  test('is believed when it is whole', async () => {
    const { scanned, nodes } = await scanDamaged(whole);
    expect(scanned).toEqual({ ...reference, readCount: 0 });
    expect(nodes).toBeGreaterThan(reference.entryCount);
  });

  test('gives the same tree, or none, whatever bits of its file flip', async () => {
    const written = [...whole.keys()].filter((at) => whole[at] !== 0);
    const flip = fc.record({
      at: fc.oneof(fc.constantFrom(...written), fc.nat(whole.length - 1)),
      bits: fc.integer({ min: 1, max: 255 }),
    });
    const flips = fc.array(flip, { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(flips, async (all) => {
        const damaged = Buffer.from(whole);
        for (const { at, bits } of all) damaged[at] = (damaged[at] as number) ^ bits;
        const { scanned } = await scanDamaged(damaged);
        const { hash, bytes, entryCount, kind } = reference;
        expect(scanned).toMatchObject({ hash, bytes, entryCount, kind });
      }),
      { numRuns: 120 },
    );
  });

  test('gives the same tree whatever stands in the header of its file', async () => {
    for (let at = 0; at < 100; at += 1) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] as number) ^ 1;
      expect((await scanDamaged(damaged)).scanned.hash).toBe(reference.hash);
    }
  });

  test.each([
    ['directories', 'name'],
    ['directories', 'summary'],
    ['pages', 'entries'],
    ['files', 'name'],
    ['files', 'entry'],
    ['nodes', 'name'],
    ['nodes', 'hash'],
    ['nodes', 'bytes'],
    ['commits', 'pending'],
    // The empty folder's node: its text has the same hash.
    ['nodes WHERE length(bytes) < 100', 'bytes'],
  ])('gives the same tree when of %s each %s became text', async (rows, column) => {
    writeFileSync(file, whole);
    const database = new Database(file);
    const [table, where = ''] = rows.split(/(?= WHERE)/);
    const { changes } = database.run(`UPDATE ${table} SET ${column} = CAST(${column} AS TEXT)${where}`);
    expect(changes).toBeGreaterThan(0);
    database.close();
    const { scanned, nodes } = await scanDamaged(readFileSync(file));
    expect(scanned.hash).toBe(reference.hash);
    expect(nodes).toBeGreaterThan(reference.entryCount);
  });

  test('gives the same tree when it forgot that a file has an index', async () => {
    writeFileSync(file, whole);
    const state = TreeState.open(file);
    const index = state.findFile(reference.directoryId, toByteString('large'))?.hash as Hash;
    state.close();
    const hash = hashToBytes(index);
    let found = 0;
    for (let at = whole.indexOf(hash); at >= 0; at = whole.indexOf(hash, at + 1), found += 1) {
      const damaged = Buffer.from(whole);
      damaged[at + 5] = (damaged[at + 5] as number) ^ 1;
      const { scanned, nodes } = await scanDamaged(damaged);
      expect(scanned.hash).toBe(reference.hash);
      expect(nodes).toBeGreaterThan(reference.entryCount);
    }
    // In the row of the file, in the node's, in the key of it.
    expect(found).toBeGreaterThanOrEqual(3);
  });

  test('gives the same tree when it is cut off', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), async (length) => {
        expect((await scanDamaged(whole.subarray(0, length))).scanned.hash).toBe(reference.hash);
      }),
      { numRuns: 20 },
    );
  });

  test('hands over the commits that can still be read when it is discarded', () => {
    writeFileSync(file, whole);
    const state = TreeState.open(file);
    expect(state.discard()).toEqual(new Map([[SCOPE, commit]]));
    const next = TreeState.open(file);
    expect(next.findCommit(SCOPE)).toBeUndefined();
    next.close();
  });
});
