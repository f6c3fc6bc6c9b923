/** Values arrive in the other thread as they were sent, and errors keep their class. */
import { expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { CounterBroken, InvariantViolation } from '../../../core/invariant.ts';
import type { JudgedRecord } from '../../../core/pack-ports.ts';
import type { PackGroup } from '../../../core/packs/publish-group.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { isDamageMet } from '../../local-failure.ts';
import {
  fromGroupMessage,
  type GroupMessage,
  packError,
  packMessage,
  packOrders,
  type ToWriter,
  unpackError,
  unpackMessage,
  unpackRenewals,
} from './writer-messages.ts';

const send = (message: ToWriter): ToWriter => unpackMessage(structuredClone(packMessage(message)));
const cross = (error: unknown): Error => {
  const outcomes = [[1, false, packError(error)] as const];
  const packed = structuredClone(packMessage({ commits: [], renewed: [], outcomes, fatal: undefined }));
  const { outcomes: arrived } = unpackMessage<{ outcomes: typeof outcomes } & ToWriter>(packed);
  return unpackError((arrived[0] as (typeof outcomes)[number])[2]);
};

test.each([
  ['text', { hash: 'ab', duration: 5, isOpen: true, absent: null }, 'string'],
  ['fields without a value', { hash: 'ab', inspection: undefined }, 'string'],
  ['bytes', { inlineBytes: new Uint8Array([1, 2]) }, 'object'],
  ['a set', { deleted: new Set(['a']) }, 'object'],
  ['a list with gaps', { rows: [undefined, 1] }, 'object'],
  ['numbers that text has no word for', { at: Number.NaN }, 'object'],
])('%s', (_, input, wanted) => {
  const orders = packOrders([[1, 'transact', { appId: 'a', spaceId: 's' }, input]]);
  const message: ToWriter = { ...orders, isLast: false };
  expect(typeof packMessage(message)).toBe(wanted as never);
  expect(send(message)).toEqual(message);
});

test('renewals arrive as they were asked for, apart from other orders', () => {
  const [one, other] = [
    { appId: 'a', spaceId: 's' },
    { appId: 'a', spaceId: 't' },
  ];
  const [first, second] = ['1'.repeat(64), '2'.repeat(64)];
  const orders = packOrders([
    [4, 'renewReady', one, first, 60_000],
    [5, 'removeStoreValue', 'name'],
    [6, 'renewReady', other, first, 70_000],
    [7, 'renewReady', { ...one }, second, 80_000],
  ]);
  const arrived = send({ ...orders, isLast: true });
  expect(arrived.orders).toEqual([[5, 'removeStoreValue', 'name']]);
  expect(arrived.renewals.ids).toEqual([4, 6, 7]);
  const renewals = unpackRenewals(arrived.renewals);
  expect(renewals).toEqual([
    { space: one, hash: first, durationMs: 60_000 },
    { space: other, hash: first, durationMs: 70_000 },
    { space: one, hash: second, durationMs: 80_000 },
  ]);
  expect(renewals[2]?.space).toBe(renewals[0]?.space as never);
});

test('a group of a pack arrives as it was sent, each record with bytes of its own', () => {
  const pack = 'ab'.repeat(16);
  const records = [0, 2, 1].map((refs, at): JudgedRecord => {
    const place = { pack, offset: 48 + at, storedLength: 100 + at, codec: at === 1 ? 1 : 0 } as const;
    const sizes = { size: 2 ** 31 + at, canonicalSize: 2 ** 40 + at };
    const integrity = new Uint8Array(at === 2 ? 25 : 9).fill(at);
    const contentType = at === 1 ? 'x/\u00fc' : 'text/plain';
    const hash = String(at).repeat(64);
    return {
      index: 3 - at,
      hash,
      ...sizes,
      contentType,
      refs: new Uint8Array(refs * 32).fill(at),
      place,
      integrity,
    };
  });
  const space = { appId: 'a', spaceId: 's' };
  const group: PackGroup = {
    ...{ id: '1'.repeat(32), generation: pack, from: 256, isLast: true, durationMs: 60_000 },
    ...{ uploads: 'server', keepReplacedMs: 7, records },
  };
  for (const sent of [group, { ...group, records: [] }]) {
    const [order] = send({
      ...packOrders([[1, 'transact', space, 'publishGroup', sent]]),
      isLast: false,
    }).orders;
    const [id, verb, itsSpace, name, packed] = order ?? [];
    expect([id, verb, itsSpace, name]).toEqual([1, 'transact', space, 'publishGroup']);
    const arrived = fromGroupMessage(packed as GroupMessage);
    expect(arrived).toEqual(sent);
    for (const { refs } of arrived.records) expect(refs.buffer.byteLength).toBe(refs.length);
  }
});

test('an error for the caller keeps its status, code, headers and time', () => {
  const headers = { 'content-range': 'bytes */4' };
  const sent = new ApiError('CONFLICT', 'finished', { status: 412, headers, retryAfterSeconds: 5 });
  const arrived = cross(sent);
  expect(arrived).toBeInstanceOf(ApiError);
  expect(arrived).toBeInstanceOf(Error);
  expect({ ...arrived }).toEqual({ ...sent });
  expect([arrived.message, arrived.name, arrived.stack]).toEqual([sent.message, sent.name, sent.stack]);
});

test('a broken count keeps its rule and its Space, and is still unavailability', () => {
  const arrived = cross(new CounterBroken('node_count', { appId: 'a', spaceId: 's' }));
  expect(arrived).toBeInstanceOf(CounterBroken);
  expect(arrived).toBeInstanceOf(StoreUnavailable);
  expect(arrived).toMatchObject({ rule: 'node_count', space: { appId: 'a', spaceId: 's' } });
});

test('a broken invariant stays one, and no other error becomes one', () => {
  expect(cross(new InvariantViolation('a rule'))).toBeInstanceOf(InvariantViolation);
  expect(cross(new Error('no rule'))).not.toBeInstanceOf(InvariantViolation);
});

test('a cause is kept, so that damage is told from other failures', () => {
  const cause = Object.assign(new Error('malformed'), { code: 'SQLITE_CORRUPT' });
  const arrived = cross(new StoreUnavailable('reading failed', { cause }));
  expect(isDamageMet(arrived)).toBe(true);
  expect((arrived.cause as Error).message).toBe('malformed');
});

test('any other error keeps its message', () => {
  expect(cross(new TypeError('not a function'))).toMatchObject({
    name: 'TypeError',
    message: 'not a function',
  });
  expect(cross('thrown as text').message).toBe('thrown as text');
});
