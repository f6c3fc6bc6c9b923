/** Packs on their way, against one Space in memory: what goes on while others wait, and what is never held. */
import { describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { encodeNode, type Hash } from '@holdfast/protocol';
import { hashCanonicalBytes } from '../digest.ts';
import { FakeSpace, type Fault, failure } from '../test/fake-space-fixture.ts';
import { type PackedNode, type PackOutcome, Packs } from './packs.ts';

interface Made {
  readonly hash: Hash;
  readonly canonical: Uint8Array;
}

async function makeDense(bytes: number): Promise<Made> {
  const canonical = encodeNode({ contentType: 'application/x-pack', refs: [], content: randomBytes(bytes) });
  return { hash: await hashCanonicalBytes(canonical), canonical };
}

function start() {
  const space = new FakeSpace();
  space.offersBulk = true;
  const { bulk } = space.client({ retry: { attemptsMax: 1 } });
  const outcomes: PackOutcome[] = [];
  const failures: unknown[] = [];
  const packs = new Packs<PackedNode>({
    bulk,
    send: (_, request) => request(),
    signal: undefined,
    clock: space.clock,
    leaseDurationMs: 600_000,
    onOutcome: (_, outcome) => void outcomes.push(outcome),
    onFailure: (_, error) => void failures.push(error),
  });
  /** Puts each into a pack of its own, and tells of those that have their place. */
  const sendEach = (nodes: readonly Made[]) => {
    let placed = 0;
    const done = (async () => {
      for (const { hash, canonical } of nodes) {
        packs.put(packs.encode(hash, canonical), { hash, canonicalLength: canonical.length });
        await packs.close();
        placed += 1;
      }
      await packs.settled();
    })();
    return { outcomes, failures, done, placed: () => placed };
  };
  return { space, sendEach };
}

/** Holds the answers to requests of a kind until `answer` is called. */
function hold(space: FakeSpace, kind: 'pack-upload' | 'pack-lease'): { answer: () => void } {
  const isAnswered = Promise.withResolvers<void>();
  const held: Fault = async ({ url, body }) => {
    await isAnswered.promise;
    return space.bulk.answer(kind, url.pathname, body);
  };
  space.plant(kind, ...Array.from({ length: 20 }, () => held));
  return { answer: isAnswered.resolve };
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve, 0));
};

const countOf = (space: FakeSpace, kind: string): number =>
  space.calls.filter((call) => call.kind === kind).length;

const makeTwelve = (): Promise<Made[]> => Promise.all(Array.from({ length: 12 }, () => makeDense(100)));

describe('packs at once', () => {
  test('are two that are sent, and one that is opened meanwhile', async () => {
    const { space, sendEach } = start();
    const { answer } = hold(space, 'pack-upload');
    const sending = sendEach(await makeTwelve());
    await turns();
    expect([sending.placed(), countOf(space, 'leases'), countOf(space, 'pack-upload')]).toEqual([2, 3, 2]);
    answer();
    await sending.done;
    expect(sending.outcomes.map(({ kind }) => kind)).toEqual(Array(12).fill('leased'));
  });

  test('are three that are judged, while two more are taken', async () => {
    const { space, sendEach } = start();
    const { answer } = hold(space, 'pack-lease');
    const sending = sendEach(await makeTwelve());
    await turns();
    expect([countOf(space, 'pack-upload'), countOf(space, 'pack-lease')]).toEqual([5, 3]);
    answer();
    await sending.done;
    expect(sending.outcomes.map(({ kind }) => kind)).toEqual(Array(12).fill('leased'));
  });
});

test('a pack that waited for its place until its instruction was over is opened again, and sent once', async () => {
  const { space, sendEach } = start();
  const { answer } = hold(space, 'pack-upload');
  const sending = sendEach(await Promise.all(Array.from({ length: 3 }, () => makeDense(100))));
  await turns();
  // Time passes.
  space.clock.startTimer(299_000, () => undefined)();
  answer();
  await sending.done;
  expect(sending.outcomes.map(({ kind }) => kind)).toEqual(Array(3).fill('leased'));
  const ids = space.calls.filter(({ kind }) => kind === 'pack-upload').map(({ url }) => url.pathname);
  expect([ids.length, countOf(space, 'leases')]).toEqual([3, 4]);
});

describe('a pack whose lease says nothing', () => {
  test('leaves the question to another lease, if its bytes were taken and given up', async () => {
    const { space, sendEach } = start();
    space.plant('pack-lease', () => failure(404, 'NOT_FOUND'));
    const sending = sendEach([await makeDense(100)]);
    await sending.done;
    await turns();
    expect(sending.outcomes).toEqual([{ kind: 'unsettled' }]);
    expect(countOf(space, 'pack-upload')).toBe(1);
  });

  test('is sent again as it is, if nobody knows that its bytes were taken', async () => {
    const { space, sendEach } = start();
    space.plant('pack-upload', () => failure(403, 'FORBIDDEN'));
    space.plant('pack-lease', () => failure(409, 'CONFLICT'));
    const sending = sendEach([await makeDense(100)]);
    await sending.done;
    expect(sending.outcomes.map(({ kind }) => kind)).toEqual(['leased']);
    expect(countOf(space, 'pack-upload')).toBe(2);
  });

  test('fails its nodes, if its lease fails', async () => {
    const { space, sendEach } = start();
    space.plant('pack-lease', () => failure(403, 'FORBIDDEN'));
    const sending = sendEach(await makeTwelve());
    await sending.done;
    expect(sending.failures).toHaveLength(1);
    expect(sending.outcomes).toHaveLength(11);
  });

  test('and lets the next be judged, however many fail', async () => {
    const { space, sendEach } = start();
    space.plant('pack-lease', ...Array.from({ length: 12 }, () => () => failure(403, 'FORBIDDEN')));
    const sending = sendEach(await makeTwelve());
    await sending.done;
    expect([sending.failures.length, sending.outcomes.length]).toEqual([12, 0]);
  });
});
