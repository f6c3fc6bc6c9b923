/** The bytes of packs (core/pack-ports.ts PackStore), and of nodes that are records of one. */

import { expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import fc from 'fast-check';
import type { ContentStore } from '../../core/ports.ts';
import { ContentDamaged, ContentLost } from '../../core/store-failure.ts';
import type { ContentUnderTest } from './content-under-test.ts';
import { makePack, putPack } from './pack-samples.ts';
import { newGeneration, readObject, SPACE, sampleNode } from './samples.ts';

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error) => error,
  );

export function testPacks(subject: ContentUnderTest): void {
  const store = (): ContentStore => subject.opened.store;

  test('a pack is read from its first byte to its last, and a missing one is absent', async () => {
    const { generation, bytes } = await putPack(subject, [0, 100, 3 * MIB_BYTES, 5]);
    const seen = await store().packs.inspect(SPACE, generation, async (object) => {
      const pieces = await Array.fromAsync(object.read(), (piece) => piece.slice());
      return [object.bytes, Buffer.concat(pieces)] as const;
    });
    expect(seen?.[0]).toBe(bytes.length);
    expect(Buffer.compare(seen?.[1] ?? Buffer.alloc(0), bytes)).toBe(0);
    const absent = store().packs.inspect(SPACE, newGeneration(), async () => 'judged');
    expect(await absent).toBeUndefined();
  });

  test('an error of the judge of a pack is passed on', async () => {
    const { generation } = await putPack(subject, [100]);
    const judging = store().packs.inspect(SPACE, generation, async ({ read }) => {
      for await (const _ of read()) throw new TypeError('planted');
    });
    expect(await failureOf(judging)).toBeInstanceOf(TypeError);
  });

  test('any records are read, alone and many at once', async () => {
    const sizes = Array.from({ length: 12 }, (_, index) => (index === 5 ? MIB_BYTES : index * 700));
    const { records } = await putPack(subject, sizes);
    for (const { record, stored } of records) {
      expect(Buffer.compare(await store().packs.readRecord(SPACE, record), stored)).toBe(0);
    }
    const property = fc.asyncProperty(fc.subarray(records), async (chosen) => {
      const found = await store().packs.readRecords(
        SPACE,
        chosen.map(({ record }) => record),
      );
      expect(found.length).toBe(chosen.length);
      for (const [index, bytes] of found.entries()) {
        expect(Buffer.compare(bytes, chosen[index]?.stored as Uint8Array)).toBe(0);
      }
    });
    await fc.assert(property, { numRuns: 15 });
  });

  test('a node in a pack is read, proven and verified as any other', async () => {
    const { records } = await putPack(subject, [1, 5_000, 0, 300_000, 4 * MIB_BYTES, 3 * MIB_BYTES]);
    for (const { object, node, hash } of records) {
      expect(Buffer.compare(await readObject(store(), object), node)).toBe(0);
      const middle = node.length >> 1;
      expect(
        Buffer.compare(await store().read(object, middle, middle + 1), node.subarray(middle, middle + 1)),
      ).toBe(0);
      await store().prove(object, 0, node.length);
      await store().verify(object, hash);
      expect(await failureOf(store().verify(object, 'f'.repeat(64)))).toBeInstanceOf(ContentDamaged);
      expect(await store().getVersion(object)).toBe(await store().getVersion(object));
    }
  });

  test('bytes that do not match the integrity record are never given, and good ones are', async () => {
    const { records } = await putPack(subject, [400, 400, 400]);
    const [first, second, third] = records as [(typeof records)[0], (typeof records)[0], (typeof records)[0]];
    const forged = { ...second.record, integrity: first.record.integrity };
    expect(await failureOf(store().packs.readRecord(SPACE, forged))).toBeInstanceOf(ContentDamaged);
    const many = store().packs.readRecords(SPACE, [first.record, forged, third.record]);
    expect(await failureOf(many)).toBeInstanceOf(ContentDamaged);
    const object = { ...second.object, integrity: first.record.integrity };
    for (const verb of ['read', 'prove'] as const) {
      expect(await failureOf(store()[verb](object, 0, 10))).toBeInstanceOf(ContentDamaged);
    }
    expect(await failureOf(store().verify(object, second.hash))).toBeInstanceOf(ContentDamaged);
    await store().verify(first.object, first.hash);
    await store().verify(third.object, third.hash);
  });

  test('stored bytes that unpack to other canonical bytes than the row names are damaged', async () => {
    const { records } = await putPack(subject, [400, 400, 200_000, 200_000]);
    for (const { object, place } of records) {
      const { canonicalSize } = object;
      for (const wrong of [canonicalSize - 1, canonicalSize + 1]) {
        const other = { ...object, canonicalSize: wrong };
        expect(await failureOf(store().read(other, 0, 10))).toBeInstanceOf(ContentDamaged);
      }
      if (place.codec === 1) continue;
      const unpacked = { ...object, packed: { ...place, codec: 1 as const } };
      expect(await failureOf(store().read(unpacked, 0, 10))).toBeInstanceOf(ContentDamaged);
    }
  });

  test('the nodes of a pack that is gone are lost', async () => {
    const { generation, records } = await putPack(subject, [400, 400]);
    const kept = await putPack(subject, [400]);
    expect((await store().delete(SPACE, [generation])).deleted).toEqual(new Set([generation]));
    for (const { object, record, hash } of records) {
      const reads = [
        () => store().packs.readRecord(SPACE, record),
        () => store().packs.readRecords(SPACE, [record]),
        () => store().read(object, 0, 10),
        () => store().prove(object, 0, 10),
        () => store().verify(object, hash),
        () => store().getVersion(object),
      ];
      for (const read of reads) expect(await failureOf(read())).toBeInstanceOf(ContentLost);
    }
    for (const { object, hash } of kept.records) await store().verify(object, hash);
  });

  test('a pack written by the server is whole, and its records are read by integrity records made from the old ones', async () => {
    const { records } = await putPack(subject, [400, 900, 2 * MIB_BYTES]);
    const generation = newGeneration();
    const { bytes, drafts } = makePack(generation, [400, 900, 2 * MIB_BYTES]);
    const pieces = async function* () {
      for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
    };
    const written = await store().packs.write(SPACE, generation, pieces());
    expect(written.bytes).toBe(bytes.length);
    subject.opened.finish(generation);
    for (const [index, { place, node, hash }] of drafts.entries()) {
      const integrity = written.integrityFrom(records[index]?.record.integrity as Uint8Array);
      const object = {
        space: SPACE,
        generation: newGeneration(),
        canonicalSize: node.length,
        integrity,
        packed: place,
      };
      await store().verify(object, hash);
      expect(Buffer.compare(await readObject(store(), object), node)).toBe(0);
    }
  });

  test('a pack that breaks off while it is written leaves nothing, and its key is free', async () => {
    const generation = newGeneration();
    const { bytes } = makePack(generation, [400]);
    const broken = async function* () {
      yield bytes;
      throw new TypeError('planted');
    };
    expect(await failureOf(store().packs.write(SPACE, generation, broken()))).toBeInstanceOf(Error);
    expect(await store().packs.inspect(SPACE, generation, async () => true)).toBeUndefined();
    const whole = async function* () {
      yield bytes;
    };
    expect((await store().packs.write(SPACE, generation, whole())).bytes).toBe(bytes.length);
    const other = async function* () {
      yield sampleNode(5000, 1).node;
    };
    expect(await failureOf(store().packs.write(SPACE, generation, other()))).toBeInstanceOf(Error);
    const seen = await store().packs.inspect(SPACE, generation, async (object) => object.bytes);
    expect(seen).toBe(bytes.length);
  });
}
