import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { ReadBatches, type ReadBatchesOptions } from './read-batches.ts';
import type { BulkNode } from './read-nodes.ts';

const hashAt = (index: number): Hash => index.toString(16).padStart(64, '0');

/** Answers at once, and keeps what each request asked for. */
function openBatches(gather: Pick<ReadBatchesOptions, 'isMoreComing' | 'onIdle'>) {
  const asked: (readonly Hash[])[] = [];
  const batches = new ReadBatches({
    bulk: {
      async *readNodes(hashes) {
        asked.push(hashes);
        for (const hash of hashes) {
          const node: BulkNode = {
            hash,
            contentType: 'text/a',
            refs: [],
            content: new Uint8Array(1),
            memory: new Uint8Array(1),
            storedBytes: 1,
          };
          yield node;
        }
      },
    },
    send: (_, request) => request(),
    signal: undefined,
    onNode: () => undefined,
    ...gather,
  });
  return { asked, batches };
}

/** Later than every turn that was asked for before. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

test('a small request waits while more is coming, and goes when nothing more comes', async () => {
  let isMoreComing = true;
  const { asked, batches } = openBatches({ isMoreComing: () => isMoreComing });
  const first = batches.read(hashAt(1));
  await nextTurn();
  const second = batches.read(hashAt(2));
  await nextTurn();
  expect(asked).toEqual([]);
  expect(batches.isBusy).toBe(true);
  isMoreComing = false;
  batches.flushSoon();
  expect([(await first)?.hash, (await second)?.hash]).toEqual([hashAt(1), hashAt(2)]);
  expect(asked).toEqual([[hashAt(1), hashAt(2)]]);
});

test('the memory of a node goes to a reader who has it alone', async () => {
  const { batches } = openBatches({});
  const read = [1, 2, 2].map((index) => batches.read(hashAt(index)));
  const memories = (await Promise.all(read)).map((node) => node?.memory?.length);
  expect(memories).toEqual([1, undefined, undefined]);
});

test('a request of many waits for nothing', async () => {
  const { asked, batches } = openBatches({ isMoreComing: () => true });
  const reads = Array.from({ length: 300 }, (_, index) => batches.read(hashAt(index)));
  await Promise.all(reads);
  expect(asked.map(({ length }) => length)).toEqual([300]);
});

test('tells when nothing is on its way any more, so that what waited for it goes', async () => {
  const leaves = openBatches({ isMoreComing: () => parents.batches.isBusy });
  const parents = openBatches({ onIdle: () => leaves.batches.flushSoon() });
  const leaf = leaves.batches.read(hashAt(1));
  const parent = parents.batches.read(hashAt(2));
  expect((await parent)?.hash).toBe(hashAt(2));
  expect((await leaf)?.hash).toBe(hashAt(1));
});

test('a record comes as it is to one caller alone, and verified if somebody else waits for it', async () => {
  const left: Hash[] = [];
  const batches = new ReadBatches({
    bulk: {
      readNodes: () => {
        throw new Error('records are asked for');
      },
      async *readRecords(hashes, { isLeftUnproven }) {
        for (const hash of hashes) {
          if (isLeftUnproven(hash)) left.push(hash);
          const rest = { hash, storedBytes: 1 };
          const node: BulkNode = {
            ...rest,
            contentType: 'text/a',
            refs: [],
            content: new Uint8Array(1),
            memory: new Uint8Array(1),
          };
          const record = {
            ...rest,
            index: 0,
            byte: 0,
            codec: 0,
            storedLength: 1,
            canonicalLength: 1,
          } as const;
          yield isLeftUnproven(hash)
            ? {
                ...rest,
                record: { ...record, stored: new Uint8Array(1) },
                prove: async () => node,
                release: () => undefined,
              }
            : node;
        }
      },
    },
    send: (_, request) => request(),
    signal: undefined,
    onNode: () => undefined,
  });
  const alone = batches.readRecord(hashAt(1));
  const [together, verified] = [batches.readRecord(hashAt(2)), batches.read(hashAt(2))];
  const twice = [batches.readRecord(hashAt(3)), batches.readRecord(hashAt(3))];
  expect(await alone).toHaveProperty('prove');
  expect(await together).toMatchObject({ hash: hashAt(2), memory: undefined });
  expect((await verified)?.hash).toBe(hashAt(2));
  // Only one of them could give it back.
  expect((await Promise.all(twice)).map((node) => node && 'prove' in node)).toEqual([false, false]);
  expect(left).toEqual([hashAt(1)]);
});
