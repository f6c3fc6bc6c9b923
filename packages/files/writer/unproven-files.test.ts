/** Pulls whose small files another thread proves: what is false is never written, and is then read in the usual way. */
import { afterAll, describe, expect, test } from 'bun:test';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  FILE_CONTENT_TYPE,
  type NodeParts,
  type UnprovenFile,
  type UnprovenRecord,
} from '@holdfast/client/internal';
import { encodeNode, encodeNodeHeader, encodeRecord, type Hash, RECORD_CODEC_ZSTD } from '@holdfast/protocol';
import { directory, file, type Plan } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { digestWhole } from '../node-digest.ts';
import { pullToPath } from '../pull/pull-to-path.ts';
import type { SmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';
import {
  failureOf,
  freshPaths,
  makeSource,
  PlanSource,
  readStanding,
  standingOf,
} from '../test/pull-fixture.ts';
import { findZstd } from '../zstd.ts';
import { createFileWriter } from './thread-file-writer.ts';

const folder = makeTempFolder('unproven-files', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

const compress = findZstd()?.compress;

/** Gives every node as it came; `change` makes records false. */
class UnprovenSource extends PlanSource {
  readonly given: Hash[] = [];
  readonly proven: Hash[] = [];
  released = 0;
  change: (hash: Hash, record: UnprovenRecord['record']) => UnprovenRecord['record'] = (_, record) => record;

  async readUnproven(hash: Hash): Promise<UnprovenRecord> {
    const node = this.find(hash);
    const record = this.change(hash, encodeRecord(hash, encodeNode(node), compress));
    this.given.push(hash);
    const prove = async (): Promise<NodeParts> => {
      this.proven.push(hash);
      const canonical = encodeNode(node);
      if (record.canonicalLength !== canonical.length) throw new Error('not what its hash says');
      return node;
    };
    const release = (): void => {
      this.released += 1;
      // A later look at the file would find it.
      record.stored.fill(0);
    };
    return { record, prove, release };
  }
}

const PLAN: Plan = directory(
  Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [`f${index}`, file((index * 37) % 5000, index)] as const),
  ),
);

async function openSource(): Promise<{ root: Hash; source: UnprovenSource }> {
  const { root, tree } = await makeSource(PLAN);
  return { root, source: new UnprovenSource(tree) };
}

const flip = ({ stored, ...rest }: UnprovenRecord['record']): UnprovenRecord['record'] => {
  const other = Uint8Array.from(stored);
  other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
  return { ...rest, stored: other };
};

function smallFile(descriptor: number, name: string): SmallFile {
  const rest = { isExecutable: false, mtimeNs: undefined, fsync: false };
  return { folder: folderOf(descriptor), partialName: `${name}.part`, name: Buffer.from(name), ...rest };
}

describe('a pull whose files the thread proves', () => {
  test('brings every byte, and reads no file in the usual way', async () => {
    const { root, source } = await openSource();
    const target = fresh();
    await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) });
    expect(readStanding(target)).toEqual(standingOf(PLAN));
    expect(source.given).toHaveLength(300);
    // The first file shows whether names are given in one step; the pull proves that one itself.
    expect(source.proven.length).toBeLessThan(100);
    expect(source.released).toBe(300 - source.proven.length);
    expect(source.reads.length).toBeLessThan(20);
  });

  test('reads what turns out false in the usual way, and brings every byte', async () => {
    const { root, source } = await openSource();
    source.change = (_, record) => (record.canonicalLength % 3 === 0 ? flip(record) : record);
    const target = fresh();
    await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) });
    expect(readStanding(target)).toEqual(standingOf(PLAN));
    expect(source.reads.length).toBeGreaterThan(50);
  });

  test('fails with what the usual way says, and leaves nothing of that file', async () => {
    const { root, source } = await openSource();
    const bad = new Set<Hash>();
    source.change = (hash, record) => {
      if (source.given.length !== 150) return record;
      bad.add(hash);
      return flip(record);
    };
    source.onRead = (hash) => {
      if (bad.has(hash)) throw new Error('rotten');
    };
    const target = fresh();
    const writer = createFileWriter({ filesBefore: 0 });
    expect(await failureOf(pullToPath(source, root, target, { writer }), Error)).toContain('rotten');
    const standing = readStanding(target);
    const whole = standingOf(PLAN);
    if (standing.kind !== 'directory' || whole.kind !== 'directory') throw new Error('no folder');
    for (const [name, entry] of Object.entries(standing.entries)) expect(entry).toEqual(whole.entries[name]!);
  });

  test('proves by itself where there is no thread, and where another length came', async () => {
    const { root, source } = await openSource();
    const target = fresh();
    await pullToPath(source, root, target);
    expect(source.given).toEqual([]);
    source.change = (_, record) => ({ ...record, canonicalLength: record.canonicalLength + 1 });
    const other = fresh();
    await pullToPath(source, root, other, { writer: createFileWriter({ filesBefore: 0 }) });
    expect(readStanding(other)).toEqual(standingOf(PLAN));
    expect(source.released).toBe(0);
  });
});

describe('the thread', () => {
  const content = Buffer.from('some bytes of a file '.repeat(30));
  const parts = { contentType: FILE_CONTENT_TYPE, refs: [], content };
  const canonical = encodeNode(parts);
  const hash = digestWhole(canonical);
  const header = encodeNodeHeader({ ...parts, size: content.length });
  const plain = encodeRecord(hash, canonical);
  const compressed = encodeRecord(hash, canonical, compress);
  const other = encodeNode({ ...parts, contentType: 'text/plain' });

  const cases: readonly (readonly [string, UnprovenFile, string])[] = [
    ['as it is', { hash, header, record: plain }, 'exclusive'],
    ['compressed', { hash, header, record: compressed }, 'exclusive'],
    ['with another byte', { hash, header, record: flip(plain) }, 'unproven'],
    ['with another byte in its frame', { hash, header, record: flip(compressed) }, 'unproven'],
    ['under another hash', { hash: 'ab'.repeat(32), header, record: plain }, 'unproven'],
    [
      'of another type',
      { hash: digestWhole(other), header, record: encodeRecord(digestWhole(other), other) },
      'unproven',
    ],
    [
      'whose frame is shorter than it says',
      { hash, header, record: { ...compressed, canonicalLength: canonical.length + 1 } },
      'unproven',
    ],
    ['whose frame is none', { hash, header, record: { ...plain, codec: RECORD_CODEC_ZSTD } }, 'unproven'],
  ];

  test.each(cases)('a node %s', async (_, unproven, expected) => {
    const at = fresh();
    mkdirSync(at);
    const descriptor = openSync(at, 'r');
    const writer = createFileWriter({ filesBefore: 0 });
    const placed = await writer.takeUnproven(smallFile(descriptor, 'a'), unproven);
    await writer.close();
    closeSync(descriptor);
    expect(placed as string).toBe(expected);
    expect(readdirSync(at)).toEqual(expected === 'exclusive' ? ['a'] : []);
    if (expected === 'exclusive') expect(readFileSync(join(at, 'a'))).toEqual(content);
  });
});

test('a writer that is closed before its thread is ready has nothing to tell', async () => {
  const told: string[] = [];
  const writer = createFileWriter({ filesBefore: 0, warn: (message) => told.push(message) });
  writer.expect(1000);
  await writer.close();
  await Bun.sleep(50);
  expect(told).toEqual([]);
});

test('a thread that is told of many files is ready for the first', async () => {
  const at = fresh();
  mkdirSync(at);
  const descriptor = openSync(at, 'r');
  const few = createFileWriter({ filesBefore: 10 });
  const many = createFileWriter({ filesBefore: 10 });
  few.expect(10);
  many.expect(11);
  const small = (name: string): SmallFile => smallFile(descriptor, name);
  const unproven: UnprovenFile = {
    hash: '',
    header: new Uint8Array(0),
    record: { codec: 0, canonicalLength: 0, stored: new Uint8Array(0) },
  };
  // A file that finds no thread counts once, however it was offered.
  for (let count = 0; count < 10; count += 1) {
    expect(few.takeUnproven(small('a'), unproven)).toBeUndefined();
    expect(few.take(small('a'), new Uint8Array(3))).toBeUndefined();
  }
  expect(await few.take(small('a'), new Uint8Array(3))).toBe('exclusive');
  expect(await many.take(small('b'), new Uint8Array(3))).toBe('exclusive');
  await Promise.all([few.close(), many.close()]);
  closeSync(descriptor);
});
