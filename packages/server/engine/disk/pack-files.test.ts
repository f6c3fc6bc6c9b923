/** Packs on a disk that damages, shortens or loses them, and on one that is not there. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { putPack, type SampleRecord } from '../test/pack-samples.ts';
import { NOW, newGeneration, SPACE } from '../test/samples.ts';
import { diskFiles, type Files, type OpenFile } from './files.ts';
import { type ContentWorld, openContentStore } from './test/content-store-fixture.ts';

let world: ContentWorld;
beforeEach(async () => {
  world = await openContentStore();
});
afterEach(() => world.destroy());

const NO_BYTES = new Uint8Array(0);
const SIZES = [500, 4_000, 90_000, 700];
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error: unknown) => error,
  );
const putSample = () => putPack({ opened: world }, SIZES);
const verify = (record: SampleRecord | undefined) => {
  if (record === undefined) throw new Error('there is no such record');
  return world.store.verify(record.object, record.hash);
};

test('a damaged byte damages its own record and no other', async () => {
  const { generation, records } = await putSample();
  const path = world.layout.objectOf(generation);
  const bytes = readFileSync(path);
  const place = records[1]?.place ?? { offset: 0, storedLength: 0 };
  for (const at of [place.offset, place.offset + place.storedLength - 1]) {
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] as number) ^ 1;
    writeFileSync(path, damaged);
    expect(await failureOf(verify(records[1]))).toBeInstanceOf(ContentDamaged);
    for (const index of [0, 2, 3]) await verify(records[index]);
  }
  // Bytes between records belong to no record.
  const between = Buffer.from(bytes);
  between[place.offset - 1] = (between[place.offset - 1] as number) ^ 1;
  writeFileSync(path, between);
  for (const record of records) await verify(record);
});

test('the records before the cut of a shortened pack can be read', async () => {
  const { generation, records } = await putSample();
  const { offset } = records[2]?.place ?? { offset: 0 };
  truncateSync(world.layout.objectOf(generation), offset + 10);
  for (const index of [0, 1]) await verify(records[index]);
  for (const index of [2, 3]) expect(await failureOf(verify(records[index]))).toBeInstanceOf(ContentDamaged);
});

test('a pack that is not there is lost only if the store is healthy', async () => {
  const { generation, records } = await putSample();
  rmSync(world.layout.objectOf(generation));
  expect(await failureOf(verify(records[0]))).toBeInstanceOf(ContentLost);
  rmSync(world.layout.marker);
  expect(await failureOf(verify(records[0]))).toBeInstanceOf(StoreUnavailable);
  const inspecting = world.store.packs.inspect(SPACE, generation, async () => 'judged');
  expect(await failureOf(inspecting)).toBeInstanceOf(StoreUnavailable);
});

test('a small record is there at once, proven, and only while it is sound and its file is there', async () => {
  const { generation, records } = await putSample();
  const [plain, packed, large] = records as [SampleRecord, SampleRecord, SampleRecord];
  const findNow = ({ object }: SampleRecord, start = 0, end = object.canonicalSize) =>
    world.store.findNow(object, start, end);
  for (const record of [plain, packed]) {
    expect(Buffer.from(findNow(record) ?? [])).toEqual(Buffer.from(record.node));
    expect(Buffer.from(findNow(record, 40, 90) ?? [])).toEqual(Buffer.from(record.node.subarray(40, 90)));
  }
  // More than one allocation holds: what was read stays as it is.
  const found = Array.from({ length: 600 }, (_, at) => findNow(at % 2 === 0 ? plain : packed));
  for (const [at, bytes] of found.entries())
    expect(Buffer.compare(bytes ?? NO_BYTES, (at % 2 === 0 ? plain : packed).node)).toBe(0);
  expect(findNow(large)).toBeUndefined();
  const { object } = plain;
  for (const wrong of [
    { ...object, integrity: new Uint8Array(3) },
    { ...object, canonicalSize: object.canonicalSize + 1 },
    { ...packed.object, canonicalSize: packed.object.canonicalSize - 1 },
  ]) {
    expect(world.store.findNow(wrong, 0, 10)).toBeUndefined();
    expect(await failureOf(Promise.try(() => world.store.read(wrong, 0, 10)))).toBeInstanceOf(ContentDamaged);
  }
  const path = world.layout.objectOf(generation);
  const bytes = readFileSync(path);
  bytes[plain.place.offset] = (bytes[plain.place.offset] as number) ^ 1;
  writeFileSync(path, bytes);
  expect(findNow(plain)).toBeUndefined();
  expect(Buffer.from(findNow(packed) ?? [])).toEqual(Buffer.from(packed.node));
  truncateSync(path, packed.place.offset + 10);
  expect(findNow(packed)).toBeUndefined();
  rmSync(path);
  // A turn of the event loop still reads a file that it has opened, as if the file had been deleted a moment later.
  await new Promise((resolve) => setImmediate(resolve));
  expect(findNow(packed)).toBeUndefined();
  expect(await failureOf(world.store.read(packed.object, 0, 10))).toBeInstanceOf(ContentLost);
});

type Read = OpenFile['read'];

/** A store whose reads of objects go through `read`. */
function openWithReads(read: (read: Read) => Read): Promise<ContentWorld> {
  const openToRead: Files['openToRead'] = async (path) => {
    const file = await diskFiles.openToRead(path);
    return new Proxy(file, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return name === 'read' ? read(value.bind(target) as Read) : value.bind(target);
      },
    });
  };
  return openContentStore({ openToRead });
}

test('one bad read is no proof of damage', async () => {
  let badReads = 0;
  const other = await openWithReads((read) => async (buffer, position) => {
    const length = await read(buffer, position);
    if (badReads > 0) buffer[0] = (buffer[0] as number) ^ 1;
    badReads -= 1;
    return length;
  });
  try {
    const { records } = await putPack({ opened: other }, SIZES);
    const [first] = records as [SampleRecord];
    badReads = 1;
    await other.store.verify(first.object, first.hash);
    badReads = 2;
    expect(await failureOf(other.store.verify(first.object, first.hash))).toBeInstanceOf(ContentDamaged);
  } finally {
    await other.destroy();
  }
});

test('records near each other are read at once, far ones are not, and no read is large', async () => {
  const lengths: number[] = [];
  const other = await openWithReads((read) => async (buffer, position) => {
    lengths.push(buffer.length);
    return read(buffer, position);
  });
  try {
    const far = Array.from({ length: 3 }, () => 3 * 1024 * 1024);
    const near = Array.from({ length: 40 }, (_, index) => index * 100);
    const { records } = await putPack({ opened: other }, [...near, ...far, ...near]);
    const readOf = async (chosen: readonly SampleRecord[]) => {
      lengths.length = 0;
      const wanted = chosen.map(({ record }) => record);
      const found = await other.store.packs.readRecords(SPACE, wanted);
      expect(
        found.map((bytes) => Buffer.compare(bytes, chosen[found.indexOf(bytes)]?.stored ?? bytes)),
      ).toEqual(chosen.map(() => 0));
      return [lengths.length, Math.max(...lengths)];
    };
    expect((await readOf(records.slice(0, 40)))[0]).toBe(1);
    expect((await readOf([...records.slice(0, 40), ...records.slice(43)]))[0]).toBe(2);
    const [, largest] = await readOf(records);
    expect(largest).toBeLessThan(5 * 1024 * 1024);
  } finally {
    await other.destroy();
  }
});

test('a pack is stored as it comes, in pieces of any size', async () => {
  const sizes = [10, 300_000, 5, 2 ** 18, 2 ** 18 - 1, 100, 700_000, 1];
  const pieces = sizes.map((size, at) => new Uint8Array(size).fill(at + 1));
  const whole = Buffer.concat(pieces);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const generation = newGeneration();
  const staged = await world.store.upload.receiver.receivePack(
    { space: SPACE, generation },
    body,
    whole.length,
    whole.length,
  );
  expect(staged.bytes).toBe(whole.length);
  await staged.seal();
  expect(readFileSync(world.layout.objectOf(generation)).equals(whole)).toBe(true);
});

test('a start after a crash removes a pack that was sealed and not recorded, and no other', async () => {
  const receive = async (generation: string) => {
    const body = new Uint8Array(300_000).fill(5);
    const staged = await world.store.upload.receiver.receivePack(
      ...([{ space: SPACE, generation }, body, body.length, body.length] as const),
    );
    await staged.seal();
  };
  const [recorded, unrecorded] = [newGeneration(), newGeneration()];
  await receive(recorded);
  await receive(unrecorded);
  world.finish(recorded);
  const next = world.reopen();
  await next.resolveInterrupted();
  const isThere = (generation: string) => next.packs.inspect(SPACE, generation, async () => true);
  expect([await isThere(recorded), await isThere(unrecorded)]).toEqual([true, undefined]);
  expect(await diskFiles.list(world.layout.incoming)).toEqual([]);
});

test('a pack that no row names is a stray once it is old enough', async () => {
  const { generation } = await putSample();
  const look = (now: number) => world.store.sweep(async () => new Set<string>(), now);
  const isThere = () => world.store.packs.inspect(SPACE, generation, async () => true);
  for (let step = 0; step < 20; step += 1) await look(NOW);
  expect(await isThere()).toBe(true);
  for (let step = 0; step < 20; step += 1) await look(NOW + 25 * 3_600_000);
  expect(await isThere()).toBeUndefined();
});
