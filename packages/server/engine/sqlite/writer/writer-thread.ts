/** The start of the thread that writes rows; it does what thread-row-writer.ts tells it. */
import { parentPort } from 'node:worker_threads';
import type { Space } from '../../../core/model.ts';
import type { TransactionBody } from '../../../core/ports.ts';
import { TRANSACTIONS } from '../../../core/transactions.ts';
import { SteadyClock } from '../../steady-clock.ts';
import type { Committed } from '../node-cache.ts';
import {
  LocalRowWriter,
  type RowWriter,
  type RowWriterEvents,
  type RowWriterSettings,
} from './row-writer.ts';
import {
  fromGroupMessage,
  GROUP_BODY,
  type GroupMessage,
  type Order,
  type Outcome,
  type PackedError,
  type PackedRenewals,
  packError,
  packMessage,
  type ToWriter,
  unpackMessage,
  unpackRenewals,
} from './writer-messages.ts';

if (parentPort === null) throw new Error('this file is started as a thread');
const port = parentPort;
let commits: Committed[] = [];
let outcomes: Outcome[] = [];
let renewed: number[] = [];
let fatal: PackedError | undefined;
let isTelling = false;

/** Sends all answers of a batch in one message: their promises settle right after one another. */
function tellSoon(): void {
  if (isTelling) return;
  isTelling = true;
  queueMicrotask(() => {
    isTelling = false;
    port.postMessage(packMessage({ commits, renewed, outcomes, fatal }));
    commits = [];
    renewed = [];
    outcomes = [];
  });
}

function tell(outcome: Outcome): void {
  outcomes.push(outcome);
  tellSoon();
}

const events: RowWriterEvents = {
  onCommitted: (committed) => {
    commits.push(committed);
  },
  onFatal: (error) => {
    fatal = packError(error);
    tellSoon();
  },
};

function run(writer: RowWriter, [, verb, ...parameters]: Order): Promise<unknown> {
  if (verb !== 'transact') return (writer[verb] as (...given: unknown[]) => Promise<unknown>)(...parameters);
  const [space, name, given] = parameters as [Space, keyof typeof TRANSACTIONS, unknown];
  const input = name === GROUP_BODY ? fromGroupMessage(given as GroupMessage) : given;
  return writer.transact(space, TRANSACTIONS[name] as TransactionBody<unknown, unknown>, input);
}

async function renew(writer: LocalRowWriter, packed: PackedRenewals): Promise<void> {
  const results = await writer.renewTogether(unpackRenewals(packed));
  for (const [index, id] of packed.ids.entries()) {
    const result = results[index];
    if (result?.status === 'rejected') outcomes.push([id, false, packError(result.reason)]);
    else if (result?.value === undefined) outcomes.push([id, true]);
    else renewed.push(id, result.value.leaseStartedAt, result.value.leaseExpiresAt);
  }
  tellSoon();
}

/** Ends the thread, not the process. */
async function end(writer: RowWriter): Promise<void> {
  await writer.drain();
  await writer.close();
  process.exit(0);
}

port.once('message', (settings: RowWriterSettings) => {
  const { timeOrigin } = settings;
  const clock = timeOrigin === undefined ? { now: () => Date.now() } : new SteadyClock(timeOrigin);
  const writer = new LocalRowWriter({ ...settings, isGathered: true }, clock, events);
  port.on('message', (packed: unknown) => {
    const { orders, renewals, isLast } = unpackMessage<ToWriter>(packed);
    if (renewals.ids.length > 0) void renew(writer, renewals);
    for (const order of orders) {
      const [id] = order;
      run(writer, order).then(
        (value) => tell(value === undefined ? [id, true] : [id, true, value]),
        (error: unknown) => tell([id, false, packError(error)]),
      );
    }
    if (isLast) void end(writer);
  });
});
