/** Failures on the way of a request: which of them prove something, and which end it. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { MIB_BYTES, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { makeNode } from '../../../test/support/canonical-node.ts';
import { claimCandidates, findLeftoverClaims } from './collect/collection.ts';
import { planGc, planPass } from './collect/plan-gc.ts';
import { purgeSpace, takeRootRefs } from './collect/purge-space.ts';
import { runGc } from './collect/run-gc.ts';
import { scrub } from './collect/scrub.ts';
import { sweep } from './collect/sweep.ts';
import { findContentOf, setRotten } from './contents.ts';
import type { Core } from './core.ts';
import { assertCount, assertInvariant, CounterBroken, InvariantViolation } from './invariant.ts';
import { leaseNode } from './lease/lease-node.ts';
import { ReceiptRoom } from './lease/receipt-room.ts';
import type { NodeRow } from './model.ts';
import { leaseRows } from './packs/pack-decision.ts';
import { receiveUpload } from './packs/receive-upload.ts';
import { readContent } from './read/read-content.ts';
import { updateRootRefs } from './refs/update-root-refs.ts';
import { ContentDamaged, RowDamaged, StoreUnavailable } from './store-failure.ts';
import {
  CALLER,
  CoreWorld,
  failureOf,
  MINUTE_MS,
  ORIGIN,
  objectNode,
  SPACE,
  smallNode,
} from './test/core-fixture.ts';
import { beforeTransactions, PackClient, statesOf, withPacks, withRows } from './test/pack-fixture.ts';

/** Only ends what would go on for ever. */
const CALLS_MAX = 100;
const [small, object] = [smallNode(1), objectNode(2)];

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const bounded = (): (() => void) => {
  let calls = 0;
  return () => {
    calls += 1;
    if (calls > CALLS_MAX) throw new Error('this does not come to an end');
  };
};
const damaged = (): never => {
  throw new RowDamaged('planted: damage');
};
const faulty = (): never => {
  throw new Error('planted: a fault');
};

const withBytes = (content: Partial<Core['content']>): Core => ({
  ...world.core,
  content: { ...world.core.content, findNow: () => undefined, ...content },
});
const read = (core: Core, { hash }: { readonly hash: string }, caller = CALLER) =>
  Promise.resolve(readContent(core, SPACE, hash, undefined, caller));

test('a count below 0 is broken, and so is a rule that does not hold', () => {
  expect(() => assertInvariant(false, 'x')).toThrow(InvariantViolation);
  expect(() => assertCount(-1, 'x')).toThrow(CounterBroken);
  expect(assertCount(0, 'x')).toBeUndefined();
});

test('a renewal that fails is no reason to ask for bytes, unless its row is damaged', async () => {
  await world.publish(small);
  const lease = (renewReadyLease: () => never) =>
    leaseNode(withRows(world.core, { renewReadyLease }), SPACE, small.hash, MINUTE_MS, () => ORIGIN);
  await expect((async () => lease(faulty))()).rejects.toThrow('planted: a fault');
  expect((await lease(damaged)).state).toBe('ready');
});

test('a node that is collected while many are leased gets its place in a pack', async () => {
  await world.publish(small);
  world.now += 2 * MINUTE_MS;
  const core = beforeTransactions(world.core, leaseRows, (earlier) =>
    earlier === 0 ? runGc(world.core, SPACE, 10) : undefined,
  );
  const client = new PackClient({ core } as CoreWorld, false);
  const { results, pack } = await client.leases([small], { pack: true });
  expect([statesOf({ results }), pack?.id]).toEqual([['absent'], expect.any(String)]);
});

test('a row that cannot be read proves nothing of bytes that can', async () => {
  await world.publish(small, object);
  const lost = new StoreUnavailable('planted: a page', { isDamage: true });
  const reading = (...errors: readonly Error[]): Core => {
    let reads = 0;
    const findNodeWithContent = (): never => {
      reads += 1;
      throw errors[Math.min(reads, errors.length) - 1];
    };
    return withRows(world.core, { findNodeWithContent });
  };
  await expect(read(reading(new RowDamaged('planted: damage')), small)).rejects.toThrow('planted: damage');
  await expect(read(reading(lost), object)).rejects.toThrow('planted: a page');
  const findNodeWithContent = () => {
    fault.findNodeWithContent = world.core.metadata.findNodeWithContent.bind(world.core.metadata);
    return faulty();
  };
  const fault: Partial<Core['metadata']> = { findNodeWithContent };
  await expect(read(withRows(world.core, fault), small)).rejects.toThrow('planted: a fault');
  const later = reading(lost, new Error('planted: a fault'));
  const unread = beforeTransactions(later, findContentOf, damaged);
  await expect(read(unread, small)).rejects.toThrow('planted: a fault');
  for (const node of [small, object]) expect((await world.row(node))?.state).toBe('ready');
});

test('a read of too few bytes fails', async () => {
  await world.publish(object);
  const short = withBytes({ read: async () => new Uint8Array(1) });
  await expect(read(short, object)).rejects.toThrow('came as 1');
});

test('content that fits into lent memory is not copied', async () => {
  const roomy = await CoreWorld.open({ nodeBytesMax: MIB_BYTES });
  const large = makeNode(Buffer.alloc(MIB_BYTES / 2, 'x'));
  await roomy.publish(large);
  const lend = async () => ({});
  expect((await read(roomy.core, large, { ...CALLER, lend })).body).toEqual(large.content);
  await expect(read(roomy.core, large)).rejects.toThrow('no content here');
  await roomy.close();
});

test('where the disk is full nothing new is begun, and what is there is answered', async () => {
  await world.publish(small);
  const begun = await world.begin(object);
  const core: Core = { ...world.core, freeSpace: { isLowFor: () => true } };
  const full = new PackClient({ core } as CoreWorld, false);
  const isRefused = async (work: Promise<unknown>): Promise<boolean> =>
    (await failureOf(work)).message.includes('left on the server');
  const lease = (node: { readonly hash: string }) =>
    leaseNode(core, SPACE, node.hash, MINUTE_MS, () => ORIGIN);
  expect(await isRefused(lease(smallNode(3)))).toBe(true);
  expect(await isRefused(full.open([smallNode(3)]))).toBe(true);
  const token = begun.upload.url.slice(`${ORIGIN}/uploads/`.length);
  const headers = { contentType: NODE_MEDIA_TYPE, ifNoneMatch: '*', declaredLength: undefined };
  expect(await isRefused(receiveUpload(core, { token, ...headers, body: null }))).toBe(true);
  expect((await lease(small)).state).toBe('ready');
});

test('a scrub that meets a broken rule ends', async () => {
  await world.publish(object);
  const verify = async (): Promise<never> => {
    throw new InvariantViolation('planted');
  };
  await expect(scrub(withBytes({ verify }), undefined)).rejects.toThrow('planted');
});

test('a record that fails for another reason than rot ends the answer', async () => {
  const client = new PackClient(world, false);
  await client.send([small]);
  const readRecords = async (): Promise<never> => {
    throw new ContentDamaged('planted: rot');
  };
  for (const core of [
    withPacks(world.core, { readRecords, readRecord: async () => faulty() }),
    withPacks(world.core, { readRecords: async () => faulty() }),
  ])
    await expect(new PackClient({ core } as CoreWorld, false).read([small])).rejects.toThrow(
      'planted: a fault',
    );
});

test('a record that changes at each look is left out in the end', async () => {
  const client = new PackClient(world, false);
  await client.send([small]);
  const readRecords = async (): Promise<never> => {
    throw new ContentDamaged('planted: rot');
  };
  const count = bounded();
  const core = withRows(withPacks(world.core, { readRecords, readRecord: readRecords }), {
    async transact(...given) {
      if ((given[1] as unknown) !== setRotten) return world.core.metadata.transact(...given);
      count();
      return 'changed' as never;
    },
  });
  expect(await new PackClient({ core } as CoreWorld, false).read([small])).toEqual([]);
});

test('a PUT is the only one if none that came before it is under way', async () => {
  world.quotas.app = { limits: { maxBytes: 0, maxNodes: undefined }, stored: { bytes: 0, nodes: 0 } };
  const seen: boolean[] = [];
  const mayHeal = async (isOnly: boolean): Promise<boolean> => seen.push(isOnly) > 0;
  for (const held of [1, 0]) {
    const room = new ReceiptRoom(world.core, SPACE, { bytes: 1, mayHeal });
    await room.admit({ heldBefore: () => held, pause: async () => undefined });
  }
  expect(seen).toEqual([false, true]);
});

test('a claim that the sweep cannot finish is its failure', async () => {
  await world.publish(object);
  await world.core.metadata.transact(SPACE, async (tx) => {
    const row = (await tx.findNode(object.hash)) as NodeRow;
    await tx.update('node', row, { ...row, state: 'claimed', leaseExpiresAt: 0 });
  });
  world.doors.delete = async () => faulty();
  await expect(sweep(world.core)).rejects.toThrow('planted: a fault');
});

test('a plan of nodes that are all damaged has none, and comes to an end', async () => {
  await world.publish(small, object);
  world.now += 2 * MINUTE_MS;
  const count = bounded();
  const core = beforeTransactions(world.core, planPass, () => {
    count();
    damaged();
  });
  expect(await planGc(core, SPACE, 10)).toMatchObject({ nodes: [], damage: expect.any(RowDamaged) });
});

test('a purge goes around damage, says so, and comes to an end', async () => {
  await world.publish(small, object);
  await updateRootRefs(world.core, SPACE, 'd', { requestId: 'a', changes: [{ hash: small.hash, delta: 1 }] });
  const once = (earlier: number): void => {
    if (earlier === 0) damaged();
  };
  const core = beforeTransactions(
    beforeTransactions(world.core, takeRootRefs, once),
    claimCandidates,
    damaged,
  );
  const count = bounded();
  const mayGoOn = async (): Promise<boolean> => {
    count();
    return true;
  };
  expect((await failureOf(purgeSpace(core, SPACE, mayGoOn))).message).toContain(
    'rows of this Space cannot be read: 2 nodes were removed, and 0 are left',
  );
});

test('an object that cannot be deleted ends a purge, beside damage too', async () => {
  await world.publish(object);
  world.doors.delete = async () => faulty();
  const count = bounded();
  const mayGoOn = async (): Promise<boolean> => {
    count();
    return true;
  };
  await expect(purgeSpace(world.core, SPACE, mayGoOn)).rejects.toThrow('planted: a fault');
  const around = beforeTransactions(world.core, findLeftoverClaims, damaged);
  await expect(purgeSpace(around, SPACE, mayGoOn)).rejects.toThrow('planted: a fault');
});
