/** The start of the thread that writes rows; it does what thread-row-writer.ts tells it. */
import { parentPort } from 'node:worker_threads';
import type { Space } from '../../core/model.ts';
import type { TransactionBody } from '../../core/ports.ts';
import { TRANSACTIONS } from '../../core/transactions.ts';
import type { Committed } from './node-cache.ts';
import {
  LocalRowWriter,
  type RowWriter,
  type RowWriterEvents,
  type RowWriterSettings,
} from './row-writer.ts';
import { type PackedError, packError } from './thread-errors.ts';
import { type Order, type Outcome, packMessage, type ToWriter, unpackMessage } from './writer-messages.ts';

if (parentPort === null) throw new Error('this file is started as a thread');
const port = parentPort;
let commits: Committed[] = [];
let outcomes: Outcome[] = [];
let fatal: PackedError | undefined;
let isTelling = false;

/** Sends all answers of a batch in one message: their promises settle right after one another. */
function tellSoon(): void {
  if (isTelling) return;
  isTelling = true;
  queueMicrotask(() => {
    isTelling = false;
    port.postMessage(packMessage({ commits, outcomes, fatal }));
    commits = [];
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
  const [space, name, input] = parameters as [Space, keyof typeof TRANSACTIONS, unknown];
  return writer.transact(space, TRANSACTIONS[name] as TransactionBody<unknown, unknown>, input);
}

/** Ends the thread, not the process. */
async function end(writer: RowWriter): Promise<void> {
  await writer.drain();
  await writer.close();
  process.exit(0);
}

port.once('message', (settings: RowWriterSettings) => {
  const writer = new LocalRowWriter(settings, { now: () => Date.now() }, events);
  port.on('message', (packed: unknown) => {
    const { orders, isLast } = unpackMessage<ToWriter>(packed);
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
