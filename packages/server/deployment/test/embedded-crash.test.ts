/** Whatever instant a process ends at, what opens the folder next finds nothing to repair and loses nothing recorded. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineRefused } from '../../engine/refused.ts';
import { NOW, newGeneration, SPACE, sampleNode } from '../../engine/test/samples.ts';
import { openTemporaryEngine, receiverOf, stage, type TemporaryEngine } from './embedded-engine-fixture.ts';

const LIMITS = { nodeBytesMax: 64 * 1024 * 1024 };
const { hash, node } = sampleNode(700_000, 1);
let engine: TemporaryEngine;

beforeEach(async () => {
  engine = await openTemporaryEngine();
});
afterEach(() => engine.destroy());

const incoming = () => readdir(join(engine.dataDir, 'content', 'incoming'));

async function isObjectThere(generation: string): Promise<boolean> {
  return (await engine.content.inspect(SPACE, generation, hash, LIMITS)).found;
}

test('a crash before the object is sealed leaves nothing', async () => {
  const { generation } = await stage(engine.metadata, engine.content, hash, node);
  expect(await incoming()).toHaveLength(1);
  const next = await engine.openAfterCrash();
  expect(await incoming()).toEqual([]);
  expect(await isObjectThere(generation)).toBe(false);
  await next.close();
});

test('a crash between sealing and recording leaves nothing, and the same key can be used again', async () => {
  const { generation, staged } = await stage(engine.metadata, engine.content, hash, node);
  await staged.seal();
  expect(await isObjectThere(generation)).toBe(true);
  const next = await engine.openAfterCrash();
  expect(await incoming()).toEqual([]);
  expect(await isObjectThere(generation)).toBe(false);
  const target = { space: SPACE, generation, hash };
  const again = await receiverOf(next.content).receive(target, node, node.length, LIMITS);
  expect(await again.seal()).toBe(true);
  expect(await isObjectThere(generation)).toBe(true);
  await again.release();
  await next.close();
});

test('a crash after recording keeps the object and drops its staged name', async () => {
  const { generation, staged, finish } = await stage(engine.metadata, engine.content, hash, node);
  await staged.seal();
  await finish();
  expect(await incoming()).toHaveLength(1);
  const next = await engine.openAfterCrash();
  expect(await incoming()).toEqual([]);
  expect(await isObjectThere(generation)).toBe(true);
  await next.close();
});

test('a sealed object whose record failed can be taken over by the same PUT, repeated', async () => {
  const { generation, staged } = await stage(engine.metadata, engine.content, hash, node);
  await staged.seal();
  await staged.release();
  expect(await incoming()).toHaveLength(1);
  await engine.content.sweep((keys) => engine.metadata.page('knownGenerations', keys), NOW);
  expect(await isObjectThere(generation)).toBe(true);
  const target = { space: SPACE, generation, hash };
  const again = await receiverOf(engine.content).receive(target, node, node.length, LIMITS);
  expect(await again.seal()).toBe(true);
  await again.release();
  await engine.metadata.transact(SPACE, async (tx) => {
    const upload = await tx.findUpload(hash);
    if (upload !== undefined) await tx.delete('upload', upload);
  });
  await engine.content.sweep((keys) => engine.metadata.page('knownGenerations', keys), NOW);
  expect(await isObjectThere(generation)).toBe(false);
  expect(await incoming()).toEqual([]);
});

test('names the store did not give are left alone', async () => {
  const strange = join(engine.dataDir, 'content', 'incoming', 'README');
  await writeFile(strange, 'not ours');
  const dead = `${newGeneration()}.999999999-abcdef.1`;
  await writeFile(join(engine.dataDir, 'content', 'incoming', dead), 'half');
  await engine.content.sweep(() => new Set(), NOW);
  expect(await incoming()).toEqual(['README']);
  await rm(strange);
});

test('uploads on their way are not swept', async () => {
  const { generation, staged, finish } = await stage(engine.metadata, engine.content, hash, node);
  await engine.content.sweep(() => new Set(), NOW);
  await staged.seal();
  await engine.content.sweep(() => new Set(), NOW);
  await finish();
  await staged.release();
  expect(await isObjectThere(generation)).toBe(true);
  expect(await incoming()).toEqual([]);
});

test('a content folder that is not the one of these rows is refused with what to do', async () => {
  await engine.reopen();
  const marker = join(engine.dataDir, 'content', 'STORE');
  const id = await Bun.file(marker).text();
  await rm(marker);
  const refused = await engine.openAfterCrash().catch((error) => error);
  expect(refused).toBeInstanceOf(EngineRefused);
  expect(refused.message).toContain(id.trim());
  await writeFile(marker, 'other');
  expect(await engine.openAfterCrash().catch((error) => error)).toBeInstanceOf(EngineRefused);
  await rm(join(engine.dataDir, 'content'), { recursive: true });
  expect(await engine.openAfterCrash().catch((error) => error)).toBeInstanceOf(EngineRefused);
});
