/** Real files, damaged behind the store's back: the bytes are never served, and only a proof counts as a proof. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdir, open, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { MIB_BYTES } from '@holdfast/protocol';
import type { ContentRow } from '../../core/model.ts';
import type { StoredObject } from '../../core/ports.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { BLOCK_BYTES, IntegrityBuilder } from '../../engine/disk/block-integrity.ts';
import { type ContentWorld, openContentStore } from '../../engine/disk/test/content-store-fixture.ts';
import { newGeneration, readObject, SPACE, sampleNode } from '../../engine/test/samples.ts';
import { openTemporaryEngine, putInline, type TemporaryEngine } from './embedded-engine-fixture.ts';

const LIMITS = { nodeBytesMax: 64 * MIB_BYTES };

async function flipByte(path: string, position: number): Promise<void> {
  const file = await open(path, 'r+');
  try {
    const byte = new Uint8Array(1);
    await file.read(byte, 0, 1, position);
    await file.write(new Uint8Array([(byte[0] as number) ^ 0x10]), 0, 1, position);
  } finally {
    await file.close();
  }
}

function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error) => error,
  );
}

describe('objects', () => {
  let world: ContentWorld;
  let object: StoredObject;
  let path: string;
  let node: Uint8Array;
  let hash: string;
  const readRange = (start: number, end: number) => readObject(world.store, object, start, end);

  beforeEach(async () => {
    world = await openContentStore();
    ({ node, hash } = sampleNode(4 * MIB_BYTES, 3));
    const generation = newGeneration();
    await world.put(generation, node);
    world.finish(generation);
    const inspected = await world.store.inspect(SPACE, generation, hash, LIMITS);
    if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('turned down');
    const { integrity } = inspected.evidence;
    object = { space: SPACE, generation, canonicalSize: node.length, integrity };
    path = world.layout.objectOf(generation);
  });
  afterEach(() => world.destroy());

  test('a flipped byte is met by every range of its block and by no other', async () => {
    for (const position of [0, BLOCK_BYTES - 1, BLOCK_BYTES, 5 * BLOCK_BYTES + 17, node.length - 1]) {
      await flipByte(path, position);
      const block = Math.floor(position / BLOCK_BYTES);
      const start = block * BLOCK_BYTES;
      const end = Math.min(start + BLOCK_BYTES, node.length);
      for (const range of [
        [start, start + 1],
        [end - 1, end],
        [position, position + 1],
      ] as const) {
        expect(await errorOf(readRange(...range))).toBeInstanceOf(ContentDamaged);
      }
      if (start > 0) expect(await readRange(start - 1, start)).toEqual(node.slice(start - 1, start));
      if (end < node.length) expect(await readRange(end, end + 1)).toEqual(node.slice(end, end + 1));
      expect(await errorOf(world.store.verify(object, hash))).toBeInstanceOf(ContentDamaged);
      await flipByte(path, position);
    }
    await world.store.verify(object, hash);
  });

  test('damage anywhere in a large range is found before its first byte is sent', async () => {
    for (const position of [0, 3 * MIB_BYTES, node.length - 1]) {
      await flipByte(path, position);
      expect(await errorOf(readRange(0, node.length))).toBeInstanceOf(ContentDamaged);
      expect(await errorOf(world.store.prove(object, 0, node.length))).toBeInstanceOf(ContentDamaged);
      await flipByte(path, position);
    }
    await world.store.prove(object, 0, node.length);
    expect(Buffer.compare(await readRange(0, node.length), node)).toBe(0);
  });

  test('a shorter or longer file is damaged, also for ranges that are still there', async () => {
    await truncate(path, node.length - 1);
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(ContentDamaged);
    await writeFile(path, Buffer.concat([node, new Uint8Array(1)]));
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(ContentDamaged);
    await writeFile(path, node);
    expect(await readRange(0, 10)).toEqual(node.slice(0, 10));
  });

  test('a removed file is lost', async () => {
    await rm(path);
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(ContentLost);
    expect(await errorOf(world.store.verify(object, hash))).toBeInstanceOf(ContentLost);
  });

  test('a store that is away proves nothing: no marker, another marker, no folder', async () => {
    const { marker, root } = world.layout;
    const content = await readFile(marker);
    await rm(path);
    await rm(marker);
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(StoreUnavailable);
    await writeFile(marker, 'another-store');
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(StoreUnavailable);
    await writeFile(marker, content);
    await rename(root, `${root}-away`);
    await mkdir(root);
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(StoreUnavailable);
    const { deleted, failure } = await world.store.delete(SPACE, [object.generation]);
    expect([deleted.size, failure]).toEqual([0, expect.any(StoreUnavailable)]);
    await rm(root, { recursive: true });
    await rename(`${root}-away`, root);
    expect(await errorOf(readRange(0, 10))).toBeInstanceOf(ContentLost);
  });

  test('an integrity record that is damaged proves nothing good', async () => {
    for (const at of [0, 1, 2, object.integrity.length - 1]) {
      const integrity = object.integrity.slice();
      integrity[at] = (integrity[at] as number) ^ 1;
      const verifying = world.store.verify({ ...object, integrity }, hash);
      expect(await errorOf(verifying)).toBeInstanceOf(ContentDamaged);
    }
  });

  test('of an object of one block each wrong bit of its record is damage, or proves the same bytes', async () => {
    const small = sampleNode(40_000, 5);
    const generation = newGeneration();
    await world.put(generation, small.node);
    world.finish(generation);
    const inspected = await world.store.inspect(SPACE, generation, small.hash, LIMITS);
    if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('turned down');
    const { integrity: record } = inspected.evidence;
    const whole = { space: SPACE, generation, canonicalSize: small.node.length };
    const prove = async (integrity: Uint8Array): Promise<void> => {
      const bytes = await world.store.read({ ...whole, integrity }, 0, small.node.length);
      expect(Buffer.compare(bytes, small.node)).toBe(0);
    };
    await prove(record);
    let proven = 0;
    for (let bit = 0; bit < record.length * 8; bit += 1) {
      const integrity = record.slice();
      integrity[bit >> 3] = (integrity[bit >> 3] as number) ^ (1 << (bit & 7));
      const error = await errorOf(prove(integrity));
      if (error === undefined) proven += 1;
      else expect([bit, error]).toEqual([bit, expect.any(ContentDamaged)]);
    }
    // Bits that make the stated block larger.
    expect(proven).toBeLessThan(4);
    for (const other of ['text', 7, null]) {
      expect(await errorOf(prove(other as unknown as Uint8Array))).toBeInstanceOf(ContentDamaged);
    }
  });
});

describe('inline bytes in the database file', () => {
  let engine: TemporaryEngine;
  beforeEach(async () => {
    engine = await openTemporaryEngine();
  });
  afterEach(() => engine.destroy());

  test('a byte flipped on disk is proven damaged at once, though the same bytes were just read', async () => {
    for (const bytes of [600, 20_000]) {
      const { hash, node } = sampleNode(bytes, bytes);
      await putInline(engine.metadata, engine.content, hash, node);
      await engine.reopen();
      const readOutside = async () => (await engine.metadata.findNodeWithContent(SPACE, hash))?.content;
      const readInside = () =>
        engine.metadata.transact(SPACE, async (tx) => {
          const row = await tx.findNode(hash);
          return row && tx.findContent(row.generation);
        });
      const prove = async (read: () => Promise<ContentRow | undefined>) => {
        const content = await read();
        if (content === undefined) throw new Error('no content');
        engine.content.verifyInline(content);
      };
      for (const read of [readOutside, readInside]) await prove(read);
      const at = (await readFile(engine.databasePath)).indexOf(node.subarray(200, 400));
      expect(at).toBeGreaterThan(0);
      await flipByte(engine.databasePath, at + 100);
      for (const read of [readOutside, readInside]) {
        expect(await errorOf(prove(read))).toBeInstanceOf(ContentDamaged);
      }
      expect((await engine.metadata.findNode(SPACE, hash))?.hash).toBe(hash);
      await flipByte(engine.databasePath, at + 100);
      for (const read of [readOutside, readInside]) await prove(read);
    }
  });

  test('bytes that became text of the same characters are damaged', () => {
    const text = 'the same bytes, and so the same checksum';
    const bytes = new TextEncoder().encode(text);
    const sums = new IntegrityBuilder();
    sums.push(bytes);
    const content = {
      ...{ generation: newGeneration(), canonicalSize: bytes.length, urlExpiresAt: 0 },
      integrity: sums.finish(),
    };
    engine.content.verifyInline({ ...content, inlineBytes: bytes });
    const inlineBytes = text as unknown as Uint8Array;
    expect(() => engine.content.verifyInline({ ...content, inlineBytes })).toThrow(ContentDamaged);
  });
});
