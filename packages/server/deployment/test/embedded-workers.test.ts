/** Several processes on one data folder: each sees what the others did. Two engines in one process stand in for them. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  hashAt,
  insertNodes,
  ManualClock,
  NOW,
  newGeneration,
  readyNode,
  SPACE,
  sampleNode,
  updateNode,
} from '../../engine/test/samples.ts';
import { type EmbeddedEngine, openEmbeddedEngine, receiverOf, stage } from './embedded-engine-fixture.ts';

let dataDir: string;
let one: EmbeddedEngine;
let other: EmbeddedEngine;
const fatal: Error[] = [];

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'holdfast-workers-'));
  fatal.length = 0;
  const open = () =>
    openEmbeddedEngine({
      dataDir,
      workers: 2,
      clock: new ManualClock(),
      onFatal: (error) => fatal.push(error),
    });
  one = await open();
  other = await open();
});
afterEach(async () => {
  await one.close();
  await other.close();
  await rm(dataDir, { recursive: true });
  expect(fatal).toEqual([]);
});

test('a row changed by one process is read changed by the other, even if it was just read', async () => {
  await insertNodes(one.metadata, SPACE, [readyNode(hashAt(1))]);
  for (let round = 1; round <= 10; round++) {
    const [writer, reader] = round % 2 === 0 ? [one, other] : [other, one];
    await reader.metadata.findNode(SPACE, hashAt(1));
    await updateNode(writer.metadata, SPACE, hashAt(1), { leaseExpiresAt: NOW + round });
    expect((await reader.metadata.findNode(SPACE, hashAt(1)))?.leaseExpiresAt).toBe(NOW + round);
    expect((await reader.metadata.readCounters(SPACE)).leasedNodeCount).toBe(1);
  }
});

test('content written by one is read by the other', async () => {
  for (const bytes of [500, 200_000]) {
    const { hash, node } = sampleNode(bytes, bytes);
    const { generation, staged, finish } = await stage(one.metadata, one.content, hash, node);
    expect(receiverOf(other.content).isReceiving(generation)).toBe(true);
    expect(receiverOf(other.content).reservedBytes(SPACE)).toBe(node.length);
    if (staged.inlineBytes === undefined) await staged.seal();
    await finish();
    await staged.release();
    expect(receiverOf(other.content).isReceiving(generation)).toBe(false);
    const inline = staged.inlineBytes !== undefined;
    await insertNodes(one.metadata, SPACE, [
      readyNode(hash, { generation, canonicalSize: node.length, storage: inline ? 'inline' : 'object' }),
    ]);
    const content = (await other.metadata.findNodeWithContent(SPACE, hash))?.content;
    if (content === undefined) throw new Error('no content');
    if (inline) other.content.verifyInline(content);
    else await other.content.verify({ space: SPACE, ...content }, hash);
  }
});

test('a file staged by another process is swept once that process has ended', async () => {
  const sleeper = Bun.spawn(['sleep', '60']);
  const incoming = join(dataDir, 'content', 'incoming');
  const name = `${newGeneration()}.${sleeper.pid}-abcdef.1`;
  await writeFile(join(incoming, name), 'half a node');
  await one.content.sweep(() => new Set(), NOW);
  expect(await readdir(incoming)).toEqual([name]);
  sleeper.kill();
  await sleeper.exited;
  await one.content.sweep(() => new Set(), NOW);
  expect(await readdir(incoming)).toEqual([]);
});

test('a process that opens the folder alone ignores the record of receivers that is left, even if it is damaged', async () => {
  await one.close();
  await other.close();
  const path = join(dataDir, 'live.db');
  const left = await readFile(path);
  for (const page of [0, 1, 2]) {
    await writeFile(path, Buffer.from(left).fill(1, page * 4096));
    const onFatal = (error: Error): number => fatal.push(error);
    one = await openEmbeddedEngine({ dataDir, workers: 2, isAlone: true, clock: new ManualClock(), onFatal });
    const { hash, node } = sampleNode(500, page);
    const { generation, staged } = await stage(one.metadata, one.content, hash, node);
    expect(receiverOf(one.content).isReceiving(generation)).toBe(true);
    await staged.release();
    expect(receiverOf(one.content).reservedBytes(SPACE)).toBe(0);
    await one.close();
  }
  const onFatal = (error: Error): number => fatal.push(error);
  const open = () => openEmbeddedEngine({ dataDir, workers: 2, clock: new ManualClock(), onFatal });
  one = await open();
  other = await open();
});
