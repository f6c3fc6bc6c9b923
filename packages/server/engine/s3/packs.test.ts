/** Packs in a store that does what the real one will not do on demand (core/packs/README.md). */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { PACK_MEDIA_TYPE } from '@holdfast/protocol';
import type { PackedRecord } from '../../core/pack-ports.ts';
import type { ContentStore } from '../../core/ports.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { makePack, putPack, type SampleRecord } from '../test/pack-samples.ts';
import { newGeneration, SPACE, urlLifeUntil } from '../test/samples.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import {
  errorAnswer,
  etagOf,
  type StandIn,
  type StandInAnswer,
  startStandIn,
} from './test/stand-in-store.ts';

const KIB = 1024;
const LIMITS = { retryPauseMs: 1, healthMs: 0 };

let standIn: StandIn;
let store: ContentStore;

beforeEach(async () => {
  standIn = await startStandIn();
  store = await openStore(configOf(standIn.bucket, { limits: LIMITS }));
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

const putSizes = (sizes: readonly number[]) =>
  putPack(
    {
      opened: {
        store,
        put: (generation, bytes) => putDirectly(store, generation, bytes),
        finish: () => undefined,
        destroy: async () => undefined,
      },
    },
    sizes,
  );

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error) => error,
  );

/** Every way to a record. */
const waysTo = ({ record, object, hash }: SampleRecord): (() => Promise<unknown>)[] => [
  () => store.packs.readRecord(SPACE, record),
  () => store.packs.readRecords(SPACE, [record]),
  () => store.read(object, 0, 1),
  () => store.prove(object, 0, 1),
  () => store.verify(object, hash),
];

function keyOf(generation: string): string {
  const key = [...standIn.objects.keys()].find((each) => each.endsWith(generation));
  if (key === undefined) throw new Error('there is no such object');
  return key;
}

function replace(generation: string, change: (bytes: Buffer) => void, etag?: string): void {
  const key = keyOf(generation);
  const bytes = Buffer.from(standIn.objects.get(key)?.bytes ?? []);
  change(bytes);
  standIn.objects.set(key, { bytes, etag: etag ?? etagOf(bytes), isPublic: false });
}

const rangesOf = (generation: string): string[] =>
  standIn.seen.flatMap(({ key, headers }) => (key.endsWith(generation) ? [headers.range ?? 'all'] : []));

/** The next answers about the pack are made worse, as often as `times`. */
function spoil(generation: string, times: number, how: (answer: StandInAnswer) => StandInAnswer): void {
  let left = times;
  standIn.intruder = (seen, answer) => {
    if (left === 0 || !seen.key.endsWith(generation)) return answer();
    left -= 1;
    return how(answer());
  };
}

function flipLast({ body, ...answer }: StandInAnswer): StandInAnswer {
  const bytes = Buffer.from(body as Uint8Array);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  return { ...answer, body: bytes };
}

describe('a record', () => {
  test('of a pack that was replaced is damaged, though its own bytes are as they were', async () => {
    const { generation, records } = await putSizes([400, 400]);
    replace(generation, (bytes) => bytes.fill(9, bytes.length - 1));
    for (const way of waysTo(records[0] as SampleRecord)) {
      expect(await failureOf(way())).toBeInstanceOf(ContentDamaged);
    }
    expect(await failureOf(store.getVersion((records[0] as SampleRecord).object))).toBeInstanceOf(
      ContentDamaged,
    );
  });

  test('whose bytes are wrong under the same ETag is damaged, and its neighbours are not', async () => {
    const { generation, records } = await putSizes([400, 400, 400]);
    const [first, second, third] = records as [SampleRecord, SampleRecord, SampleRecord];
    const { etag = '' } = standIn.objects.get(keyOf(generation)) ?? {};
    replace(generation, (bytes) => bytes.fill(9, second.place.offset, second.place.offset + 3), etag);
    for (const way of waysTo(second)) expect(await failureOf(way())).toBeInstanceOf(ContentDamaged);
    for (const { object, hash } of [first, third]) await store.verify(object, hash);
    const together = store.packs.readRecords(SPACE, [first.record, third.record]);
    expect((await together).map((bytes) => bytes.length)).toEqual(
      [first, third].map(({ stored }) => stored.length),
    );
  });

  test('that is damaged once on the way is read again, alone and among others', async () => {
    const { generation, records } = await putSizes([400, 400]);
    const [, second] = records as [SampleRecord, SampleRecord];
    spoil(generation, 1, flipLast);
    expect(Buffer.compare(await store.packs.readRecord(SPACE, second.record), second.stored)).toBe(0);
    spoil(generation, 1, flipLast);
    const read = await store.packs.readRecords(
      SPACE,
      records.map(({ record }) => record),
    );
    expect(Buffer.compare(read[1] as Uint8Array, second.stored)).toBe(0);
    spoil(generation, 2, flipLast);
    expect(await failureOf(store.packs.readRecord(SPACE, second.record))).toBeInstanceOf(ContentDamaged);
  });

  test('is lost only if the bucket is healthy and says so twice', async () => {
    const { generation, records } = await putSizes([400]);
    const [{ record }] = records as [SampleRecord];
    spoil(generation, 1, () => errorAnswer(404, 'NoSuchKey'));
    expect(await failureOf(store.packs.readRecord(SPACE, record))).toBeInstanceOf(StoreUnavailable);
    spoil(generation, 100, () => errorAnswer(503, 'SlowDown'));
    expect(await failureOf(store.packs.readRecord(SPACE, record))).toBeInstanceOf(StoreUnavailable);
    standIn.intruder = undefined;
    const marker = [...standIn.objects.keys()].find((key) => !key.startsWith('nodes/')) ?? '';
    const kept = standIn.objects.get(marker);
    standIn.objects.clear();
    expect(await failureOf(store.packs.readRecord(SPACE, record))).toBeInstanceOf(StoreUnavailable);
    if (kept !== undefined) standIn.objects.set(marker, kept);
    expect(await failureOf(store.packs.readRecord(SPACE, record))).toBeInstanceOf(ContentLost);
  });
});

test('records near each other are read in one range, with the ETag that was judged, and far ones each in their own', async () => {
  const { generation, records } = await putSizes([400, 400, 40 * KIB, 400, 400]);
  standIn.seen.length = 0;
  const chosen = [0, 1, 3, 4].map((index) => (records[index] as SampleRecord).record);
  const read = await store.packs.readRecords(SPACE, chosen);
  for (const [index, bytes] of read.entries()) {
    expect(Buffer.compare(bytes, records[[0, 1, 3, 4][index] as number]?.stored as Uint8Array)).toBe(0);
  }
  const end = ({ place: { offset, storedLength } }: PackedRecord) => offset + storedLength - 1;
  const [first, second, third, fourth] = chosen as [PackedRecord, PackedRecord, PackedRecord, PackedRecord];
  const expected = [
    `bytes=${first.place.offset}-${end(second)}`,
    `bytes=${third.place.offset}-${end(fourth)}`,
  ];
  expect(rangesOf(generation).sort()).toEqual(expected.sort());
  const { etag } = standIn.objects.get(keyOf(generation)) ?? {};
  expect(standIn.seen.every(({ headers }) => headers['if-match'] === etag)).toBe(true);
});

describe('judging a pack', () => {
  test('begins again from the first byte where the store breaks off', async () => {
    const { generation, bytes } = await putSizes([3000, 3000]);
    standIn.seen.length = 0;
    spoil(generation, 1, (answer) => ({ ...answer, breakOff: { afterBytes: 2000, how: 'end' } }));
    let begun = 0;
    const read = await store.packs.inspect(SPACE, generation, async (object) => {
      begun += 1;
      return Buffer.concat(await Array.fromAsync(object.read()));
    });
    expect(Buffer.compare(read ?? Buffer.alloc(0), bytes)).toBe(0);
    expect(begun).toBe(2);
    expect(rangesOf(generation)).toEqual(['all', 'all']);
  });

  test('takes a pack for absent only in its own bucket', async () => {
    standIn.objects.clear();
    const absent = store.packs.inspect(SPACE, newGeneration(), async () => 'judged');
    expect(await failureOf(absent)).toBeInstanceOf(StoreUnavailable);
  });
});

describe('a pack of the server', () => {
  async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
  }

  test('whose write got no answer is recognized by its bytes', async () => {
    const generation = newGeneration();
    const { bytes, drafts } = makePack(generation, [400, 400]);
    spoil(generation, 1, () => errorAnswer(500, 'InternalError'));
    const written = await store.packs.write(SPACE, generation, piecesOf(bytes));
    expect(written.bytes).toBe(bytes.length);
    expect(standIn.seen.filter(({ method }) => method === 'PUT').at(-1)?.headers).toMatchObject({
      ...{ 'if-none-match': '*', 'content-type': PACK_MEDIA_TYPE },
    });
    const { records } = await putSizes([400, 400]);
    for (const [index, { place, stored }] of drafts.entries()) {
      const integrity = written.integrityFrom(records[index]?.record.integrity as Uint8Array);
      const read = await store.packs.readRecord(SPACE, { place, integrity });
      expect(Buffer.compare(read, stored)).toBe(0);
    }
  });

  test('never takes the place of other bytes', async () => {
    const generation = newGeneration();
    await putDirectly(store, generation, new Uint8Array(50));
    const { bytes } = makePack(generation, [400]);
    expect(await failureOf(store.packs.write(SPACE, generation, piecesOf(bytes)))).toBeInstanceOf(
      StoreUnavailable,
    );
    expect(standIn.objects.get(keyOf(generation))?.bytes.length).toBe(50);
  });
});

test('a URL is signed for the media type of a pack, and takes no other', async () => {
  const { upload } = store;
  if (upload.kind !== 'direct') throw new Error('clients upload to S3 themselves');
  const life = urlLifeUntil(Date.now() + 60_000);
  const { url, headers } = await upload.signUpload(SPACE, newGeneration(), life, PACK_MEDIA_TYPE);
  expect(headers['content-type']).toBe(PACK_MEDIA_TYPE);
  const put = (changes: Record<string, string>) =>
    fetch(url, { method: 'PUT', headers: { ...headers, ...changes }, body: 'x' }).then(
      ({ status }) => status,
    );
  expect(await put({ 'content-type': 'application/vnd.holdfast.cas-node.v1' })).toBe(403);
  expect(await put({})).toBe(200);
});
