/** Makes docs/tree-vectors.json from the code; the page docs/tree-format.md says what each vector is made of. */
import { createHash } from 'node:crypto';
import { MIB_BYTES, refsToHashes } from '@holdfast/protocol';
import { buildFile, DirectoryBuilder, FileIndexBuilder } from '../tree/build/builders.ts';
import { findChunkEnd } from '../tree/format/chunker.ts';
import { encodeDirectory } from '../tree/format/directory-node.ts';
import { compareNames, type DirectoryEntry, type NodeParts } from '../tree/format/tree-format.ts';
import { encodeFile, encodeSymlink, parseTreeNode } from '../tree/format/tree-node.ts';
import { buildModel, fileEntry, MemoryNodes, seededBytes, type TreeModel, utf8 } from './tree-fixture.ts';

export async function makeTreeVectors(): Promise<unknown> {
  return {
    format: 'holdfast tree format, version 1; see tree-format.md',
    gear: makeGearVector(),
    nodes: makeNodeVectors(),
    trees: [await makeTreeVector()],
    files: await Promise.all([
      makeFileVector('one byte more than the smallest chunk', 'small', 256 * 1024 + 1),
      makeFileVector('eight MiB', 'large', 8 * MIB_BYTES),
      makeFileVector('nothing but zeros', undefined, 5 * MIB_BYTES),
    ]),
    fileIndexes: await Promise.all([2, 300, 20_000].map(makeFileIndexVector)),
    directories: await Promise.all([33, 300, 10_000, 50_000].map(makeDirectoryVector)),
  };
}

function makeGearVector(): unknown {
  const words = Array.from({ length: 256 }, (_, byte) =>
    createHash('sha256').update(Uint8Array.of(byte)).digest().readUInt32LE(0),
  );
  const table = new DataView(new ArrayBuffer(1024));
  for (const [index, word] of words.entries()) table.setUint32(index * 4, word, true);
  return {
    first: words.slice(0, 4),
    sha256: createHash('sha256').update(new Uint8Array(table.buffer)).digest('hex'),
  };
}

function makeNodeVectors(): unknown[] {
  const entries: DirectoryEntry[] = [
    fileEntry('README.md', { bytes: 6 }),
    fileEntry('bin', { kind: 'directory', bytes: 1000, entryCount: 3 }),
    fileEntry('later', { bytes: 0, mtimeNs: 1_700_000_000_123_456_789n }),
    fileEntry('earlier', { bytes: 0, mtimeNs: -1n }),
    fileEntry('link', { kind: 'symlink', bytes: 9 }),
    fileEntry('run.sh', { bytes: Number.MAX_SAFE_INTEGER - 2000, isExecutable: true }),
    fileEntry('é', { bytes: 1 }),
    fileEntry(Uint8Array.of(0xff, 0x0a), { bytes: 1 }),
  ];
  const named: [string, NodeParts][] = [
    ['empty file', encodeFile(new Uint8Array(0))],
    ['inline file', encodeFile(utf8('hello\n'))],
    ['symbolic link', encodeSymlink(utf8('../target'))],
    ['empty directory', encodeDirectory([])],
    [
      'directory of every kind and flag',
      encodeDirectory(entries.toSorted((a, b) => compareNames(a.name, b.name))),
    ],
  ];
  return named.map(([name, node]) => ({
    name,
    contentType: node.contentType,
    refs: node.refs,
    contentHex: Buffer.from(node.content).toString('hex'),
    hash: new MemoryNodes().add(node),
  }));
}

/** A small tree as a whole, as a person would list it. */
async function makeTreeVector(): Promise<unknown> {
  const file = (text: string, isExecutable = false): TreeModel => ({
    kind: 'file',
    content: utf8(text),
    isExecutable,
    mtimeNs: undefined,
  });
  const model: TreeModel = {
    kind: 'directory',
    children: [
      [
        utf8('src'),
        { kind: 'directory', children: [[utf8('main.c'), file('int main(void) { return 0; }\n')]] },
      ],
      [utf8('build.sh'), file('#!/bin/sh\n', true)],
      [utf8('LICENSE'), { kind: 'symlink', target: utf8('../LICENSE') }],
      [utf8('empty'), { kind: 'directory', children: [] }],
    ],
  };
  const { hash, bytes, entryCount } = await buildModel(new MemoryNodes(), model);
  return {
    name: 'src/main.c, build.sh (executable), LICENSE (link), empty/',
    root: hash,
    bytes,
    entryCount,
  };
}

/** `seed` undefined: zeros. */
async function makeFileVector(name: string, seed: string | undefined, length: number): Promise<unknown> {
  const content = seed === undefined ? new Uint8Array(length) : seededBytes(seed, length);
  const nodes = new MemoryNodes();
  const { hash } = await buildFile(nodes, [content]);
  const chunkBytes: number[] = [];
  for (let start = 0; start < length; start += chunkBytes.at(-1) as number) {
    chunkBytes.push((findChunkEnd(content, start, true) ?? length) - start);
  }
  return { name, seed: seed ?? null, bytes: length, chunkBytes, root: hash };
}

async function makeFileIndexVector(chunkCount: number): Promise<unknown> {
  const nodes = new MemoryNodes();
  const builder = new FileIndexBuilder(nodes);
  for (let index = 0; index < chunkCount; index += 1) {
    const hash = createHash('sha256').update(`chunk-${index}`).digest('hex');
    await builder.add({ hash, bytes: 1000 + index });
  }
  const { hash, bytes } = await builder.finish();
  return { chunkCount, root: hash, bytes, ...describeIndex(nodes) };
}

async function makeDirectoryVector(entryCount: number): Promise<unknown> {
  const nodes = new MemoryNodes();
  const builder = new DirectoryBuilder(nodes);
  for (let index = 0; index < entryCount; index += 1) {
    await builder.add(fileEntry(`entry-${String(index).padStart(5, '0')}`, { bytes: index }));
  }
  const { hash, bytes } = await builder.finish();
  return { entryCount, root: hash, bytes, ...describeIndex(nodes) };
}

/** The last node that was emitted is the root. */
function describeIndex(nodes: MemoryNodes): Record<string, unknown> {
  const root = parseTreeNode(nodes.nodes.get(nodes.emitted.at(-1) as string) as NodeParts);
  const raw = nodes.emitted.map((hash) => Buffer.from(hash, 'hex'));
  return {
    level: 'level' in root ? root.level : 0,
    nodeCount: nodes.emitted.length,
    // In the order in which a streaming builder finishes them.
    sha256OfHashes: createHash('sha256').update(Buffer.concat(raw)).digest('hex'),
    firstHashes: refsToHashes(Buffer.concat(raw.slice(0, 2))),
  };
}
