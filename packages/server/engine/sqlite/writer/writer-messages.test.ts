/** Values arrive in the other thread as they were sent, and errors keep their class. */
import { expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { CounterBroken, InvariantViolation } from '../../../core/invariant.ts';
import { StoreUnavailable } from '../../../core/ports.ts';
import { isDamageMet } from '../../local-failure.ts';
import { packError, unpackError } from './thread-errors.ts';
import { packMessage, packOrders, type ToWriter, unpackMessage, unpackRenewals } from './writer-messages.ts';

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
