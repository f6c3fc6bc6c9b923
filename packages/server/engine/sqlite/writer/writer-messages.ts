/** The messages between the thread that writes rows and the thread that asks for it. A message holds many orders or answers. */
import { ApiError, concatBytes, HASH_BYTES } from '@holdfast/protocol';
import { OnlyPlanned } from '../../../core/collect/plan-gc.ts';
import { CounterBroken, InvariantViolation } from '../../../core/invariant.ts';
import type { Generation, PackCodec, Space } from '../../../core/model.ts';
import type { JudgedRecord } from '../../../core/pack-ports.ts';
import type { PackGroup } from '../../../core/packs/publish-group.ts';
import { SpaceMap } from '../../../core/space-map.ts';
import { RowDamaged, StoreUnavailable } from '../../../core/store-failure.ts';
import type { Committed } from '../node-cache.ts';
import type { Renewal, RowWriter } from './row-writer.ts';

/** The classes that callers tell apart. Other errors arrive as plain errors with their name. */
const CLASSES: readonly (new (...args: never[]) => Error)[] = [
  ApiError,
  CounterBroken,
  InvariantViolation,
  OnlyPlanned,
  RowDamaged,
  StoreUnavailable,
];

/** Carries errors between threads with their class, which decides the answer and which a plain copy would lose. */
export interface PackedError {
  readonly className: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly cause: PackedError | undefined;
  /** name, codes, headers and the like */
  readonly fields: Readonly<Record<string, unknown>>;
}

export function packError(error: unknown): PackedError {
  if (!(error instanceof Error)) return packError(new Error(String(error)));
  const { message, stack, cause, ...fields } = error;
  return {
    className: error.constructor.name,
    message: error.message,
    stack: error.stack,
    cause: error.cause === undefined ? undefined : packError(error.cause),
    fields: { ...fields, name: error.name },
  };
}

export function unpackError({ className, message, stack, cause, fields }: PackedError): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: unpackError(cause) });
  const known = CLASSES.find(({ name }) => name === className);
  if (known !== undefined) Object.setPrototypeOf(error, known.prototype);
  return Object.assign(error, fields, { stack });
}

const HASH_DIGITS = 2 * HASH_BYTES;
const NO_REFS = new Uint8Array(0);

/** A group of a pack's records as one list for each field: an object with buffers for each record costs five times as much. */
export type GroupMessage = Omit<PackGroup, 'records'> & { readonly lists: RecordLists };

interface RecordLists {
  /** the object that all of them lie in */
  readonly pack: Generation;
  /** joined: all are of one length */
  readonly hashes: string;
  /** distinct */
  readonly contentTypes: readonly string[];
  /** NUMBERS for each record */
  readonly numbers: Float64Array;
  /** of all records, joined */
  readonly refs: Uint8Array;
  readonly integrities: Uint8Array;
}

/** index, size, canonicalSize, offset, storedLength, codec, index in `contentTypes`, bytes of refs, bytes of integrity */
const NUMBERS = 9;

function toGroupMessage({ records, ...group }: PackGroup): GroupMessage {
  const numbers = new Float64Array(records.length * NUMBERS);
  const contentTypes: string[] = [];
  let hashes = '';
  for (const [
    at,
    { index, hash, size, canonicalSize, contentType, refs, place, integrity },
  ] of records.entries()) {
    const { offset, storedLength, codec } = place;
    let type = contentTypes.indexOf(contentType);
    if (type < 0) type = contentTypes.push(contentType) - 1;
    const sizes = [index, size, canonicalSize, offset, storedLength, codec];
    numbers.set([...sizes, type, refs.length, integrity.length], at * NUMBERS);
    hashes += hash;
  }
  const pack = records[0]?.place.pack ?? group.generation;
  const refs = concatBytes(records.map((record) => record.refs));
  const integrities = concatBytes(records.map((record) => record.integrity));
  return { ...group, lists: { pack, hashes, contentTypes, numbers, refs, integrities } };
}

export function fromGroupMessage({ lists, ...group }: GroupMessage): PackGroup {
  const { pack, hashes, contentTypes, numbers, refs, integrities } = lists;
  const records: JudgedRecord[] = [];
  let refsAt = 0;
  let integrityAt = 0;
  for (let at = 0; at < numbers.length; at += NUMBERS) {
    const [index, size, canonicalSize, offset, storedLength, codec, type, refsLength, integrityLength] =
      numbers.subarray(at, at + NUMBERS) as unknown as NineNumbers;
    const hashAt = records.length * HASH_DIGITS;
    records.push({
      index,
      hash: hashes.slice(hashAt, hashAt + HASH_DIGITS),
      size,
      canonicalSize,
      contentType: contentTypes[type] as string,
      // A copy: the row stays in memory, and a view would keep those of the whole group there.
      refs: refsLength === 0 ? NO_REFS : refs.slice(refsAt, refsAt + refsLength),
      place: { pack, offset, storedLength, codec: codec as PackCodec },
      integrity: integrities.subarray(integrityAt, integrityAt + integrityLength),
    });
    refsAt += refsLength;
    integrityAt += integrityLength;
  }
  return { ...group, records };
}

type NineNumbers = readonly [number, number, number, number, number, number, number, number, number];

export const RENEWED_NUMBERS = 3;
/** the transaction whose input travels as a GroupMessage */
export const GROUP_BODY = 'publishGroup';

export type WriterVerb = Exclude<keyof RowWriter, 'drain' | 'close'>;

/** `transact` names its body. */
export type Order = readonly [id: number, verb: WriterVerb, ...parameters: unknown[]];

export interface ToWriter {
  /** all but renewals */
  readonly orders: readonly Order[];
  readonly renewals: PackedRenewals;
  /** after them, close and end */
  readonly isLast: boolean;
}

export type Outcome =
  | readonly [id: number, isDone: true, value?: unknown]
  | readonly [id: number, isDone: false, error: PackedError];

/** The reader handles the fields in this order: it knows of a commit before any request is answered. */
export interface FromWriter {
  readonly commits: readonly Committed[];
  /** RENEWED_NUMBERS for each renewal that was made: the order's id, and the start and the end of the lease */
  readonly renewed: readonly number[];
  readonly outcomes: readonly Outcome[];
  readonly fatal: PackedError | undefined;
}

/** Renewals of ready leases, which come in great numbers: one list for each field costs less than an object for each renewal. */
export interface PackedRenewals {
  readonly spaces: readonly Space[];
  readonly ids: readonly number[];
  /** of each: where its Space is in `spaces` */
  readonly spaceAt: readonly number[];
  /** one behind the other: all are of one length */
  readonly hashes: string;
  readonly durationsMs: readonly number[];
}

type RenewalOrder = readonly [
  id: number,
  verb: 'renewReady',
  ...parameters: Parameters<RowWriter['renewReady']>,
];

/** Sends renewals apart from the other orders, and groups of records as lists. */
export function packOrders(all: readonly Order[]): Pick<ToWriter, 'orders' | 'renewals'> {
  const orders: Order[] = [];
  const spaces: Space[] = [];
  const places = new SpaceMap<number>(all.length);
  const ids: number[] = [];
  const spaceAt: number[] = [];
  const durationsMs: number[] = [];
  let hashes = '';
  for (const order of all) {
    if (order[1] !== 'renewReady') {
      orders.push(isGroup(order) ? asMessage(order) : order);
      continue;
    }
    const [id, , space, hash, durationMs] = order as RenewalOrder;
    let place = places.find(space);
    if (place === undefined) {
      place = spaces.push(space) - 1;
      places.remember(space, place);
    }
    ids.push(id);
    spaceAt.push(place);
    durationsMs.push(durationMs);
    hashes += hash;
  }
  return { orders, renewals: { spaces, ids, spaceAt, hashes, durationsMs } };
}

type GroupOrder = readonly [
  id: number,
  verb: 'transact',
  space: Space,
  name: typeof GROUP_BODY,
  group: PackGroup,
];

function isGroup(order: Order): order is GroupOrder {
  return order[1] === 'transact' && order[3] === GROUP_BODY;
}

function asMessage([id, verb, space, name, group]: GroupOrder): Order {
  return [id, verb, space, name, toGroupMessage(group)];
}

export function unpackRenewals({ spaces, spaceAt, hashes, durationsMs }: PackedRenewals): Renewal[] {
  return durationsMs.map((durationMs, index) => {
    const at = index * HASH_DIGITS;
    const space = spaces[spaceAt[index] as number] as Space;
    return { space, hash: hashes.slice(at, at + HASH_DIGITS), durationMs };
  });
}

/** Packs a message as text if that loses nothing: text crosses between threads in half the time of copied objects. */
export function packMessage(message: ToWriter | FromWriter): unknown {
  return isTextual(message) ? JSON.stringify(message) : message;
}

export function unpackMessage<T extends ToWriter | FromWriter>(packed: unknown): T {
  return (typeof packed === 'string' ? JSON.parse(packed) : packed) as T;
}

/** A field that is undefined may as well be missing; an element of an array may not. */
function isTextual(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (Array.isArray(value)) {
    for (const element of value) if (!isTextual(element)) return false;
    return true;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name in fields) if (fields[name] !== undefined && !isTextual(fields[name])) return false;
  return true;
}
