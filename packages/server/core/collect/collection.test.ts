/** What the end of a claim rechecks, because other requests went by since its beginning. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Generation } from '../model.ts';
import { RowDamaged } from '../store-failure.ts';
import { CoreWorld, MINUTE_MS, objectNode, SPACE } from '../test/core-fixture.ts';
import { beforeTransactions } from '../test/pack-fixture.ts';
import { claimCandidates, settleClaims } from './collection.ts';
import { runGc } from './run-gc.ts';

const node = objectNode(1);

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
  await world.publish(node);
});
afterEach(() => world.close());

test('a claim with bytes that the row no longer has is not settled, whoever has claimed it again', async () => {
  await world.core.metadata.transact(SPACE, async (tx) => {
    const row = (await tx.findNode(node.hash))!;
    await tx.update('node', row, { ...row, state: 'claimed' });
  });
  const row = await world.row(node);
  const generation = 'f'.repeat(32) as Generation;
  const claim = { hash: node.hash, generation, storage: 'object' as const };
  const settled = await world.core.metadata.transact(SPACE, settleClaims, {
    ...{ claims: [claim], claimedAt: world.now, uploads: 'server' as const },
    deleted: new Set([generation]),
  });
  expect(settled.forgotten).toEqual([]);
  expect(await world.row(node)).toEqual(row);
});

test('a pass goes around damage alone', async () => {
  const core = beforeTransactions(world.core, claimCandidates, () => {
    throw new Error('planted: a fault');
  });
  await expect(runGc(core, SPACE, 10)).rejects.toThrow('planted: a fault');
});

test('a failure that is no damage ends the pass, although claims are settled one by one because of damage', async () => {
  world.now += 2 * MINUTE_MS;
  const core = beforeTransactions(world.core, settleClaims, (earlier) => {
    throw earlier === 0 ? new RowDamaged('planted: damage') : new Error('planted: a fault');
  });
  await expect(runGc(core, SPACE, 10)).rejects.toThrow('planted: a fault');
  expect(await world.row(node)).toMatchObject({ state: 'claimed' });
  expect(await runGc(world.core, SPACE, 10)).toMatchObject({ deleted: 1 });
});
