/** The messages between the thread that writes rows and the thread that asks for it. A message holds many orders or answers. */
import type { Space } from '../../../core/model.ts';
import type { PackGroup } from '../../../core/packs/publish-group.ts';
import { SpaceMap } from '../../../core/space-map.ts';
import type { Committed } from '../node-cache.ts';
import { HASH_DIGITS, toGroupMessage } from './group-message.ts';
import type { Renewal, RowWriter } from './row-writer.ts';
import type { PackedError } from './thread-errors.ts';

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
