/** Compaction steps: repeated failures in one place do not block the rest. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import type { Core } from '../core/core.ts';
import { moveSmall } from '../core/packs/pack-small-nodes.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { CoreWorld, DAY_MS, objectNode, SPACE } from '../core/test/core-fixture.ts';
import { beforeTransactions } from '../core/test/pack-fixture.ts';
import type { BackgroundTurns } from './turns.ts';
import { makeCompactStep } from './work.ts';

const PACE = { compactBytesPerSecond: 1e9, compactPauseMs: 0, packPauseMs: 3_600_000, askMs: 0 };
const ALWAYS = { take: async () => ({ position: undefined }) } as unknown as BackgroundTurns;
/** objects that a step reads concurrently */
const READ_TOGETHER = 8;
/** More than a walk over a few Spaces takes. */
const STEPS = 40;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open({}, { isDirect: false });
});
afterEach(() => world.close());

const nodes = Array.from({ length: 200 }, (_, index) => objectNode(index));

async function publish(): Promise<void> {
  for (const node of nodes) await world.upload(node);
  await world.keep(nodes);
  world.now += DAY_MS + 1;
}

/** Resolves with the number of failed steps. */
async function run(core: Core): Promise<number> {
  const step = makeCompactStep(core, ALWAYS, PACE);
  let failures = 0;
  for (let steps = 0; steps < STEPS; steps += 1) {
    await step().catch((error: unknown) => {
      expect((error as Error).message).toContain('planted');
      failures += 1;
    });
  }
  return failures;
}

async function countPacked(of: readonly CanonicalNode[], space = SPACE): Promise<number> {
  const rows = await Promise.all(of.map(({ hash }) => world.core.metadata.findNode(space, hash)));
  return rows.filter((row) => row?.storage === 'packed').length;
}

test.each([8, 24])('%d neighbours that cannot be read are passed over, and told of', async (count) => {
  await publish();
  const unreadable = new Set<string>();
  for (const node of nodes.slice(96, 96 + count)) {
    const row = await world.row(node);
    if (row !== undefined) unreadable.add(row.generation);
  }
  expect(unreadable.size).toBe(count);
  const { content } = world.core;
  const failures = await run({
    ...world.core,
    content: {
      ...content,
      read: async (object, ...given) => {
        if (unreadable.has(object.generation)) throw new StoreUnavailable('planted: EIO');
        return content.read(object, ...given);
      },
    },
  });
  expect(failures).toBe(count / READ_TOGETHER);
  expect(await countPacked(nodes)).toBe(nodes.length - count);
});

test('a Space whose rows fail again and again holds up no other one', async () => {
  const other = { ...SPACE, spaceId: 'zz-behind' };
  await publish();
  const behind = Array.from({ length: 80 }, (_, index) => objectNode(10_000 + index));
  for (const node of behind) await world.upload(node, node.bytes, other);
  world.now += DAY_MS + 1;
  // The first Space of the walk fails twice, whichever that is.
  const core = beforeTransactions(world.core, moveSmall, (earlier) => {
    if (earlier < 2) throw new StoreUnavailable('planted: a damaged page', { isDamage: true });
  });
  expect(await run(core)).toBe(2);
  // This walk packs the other one and leaves the first to the next walk.
  const packed = [await countPacked(nodes, SPACE), await countPacked(behind, other)];
  expect(packed.filter((count) => count > 0).length).toBe(1);
  expect(await run(world.core)).toBe(0);
  expect([await countPacked(nodes), await countPacked(behind, other)]).toEqual([nodes.length, behind.length]);
});
