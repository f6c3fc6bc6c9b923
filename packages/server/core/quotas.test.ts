/** Quotas: what they refuse, and what they never do (docs/operations.md, Quotas). */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { getUsage } from './get-usage.ts';
import type { QuotaLimits } from './quotas.ts';
import { runGc } from './run-gc.ts';
import { CoreWorld, failureOf, MINUTE_MS, objectNode, SPACE, smallNode } from './test/core-fixture.ts';
import { updateRootRefs } from './update-root-refs.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

function limit(space: Partial<QuotaLimits>): void {
  world.quotas.space = { maxBytes: undefined, maxNodes: undefined, ...space };
}

/** The message of a refusal by a quota. */
async function refusalOf(work: Promise<unknown>): Promise<string> {
  const error = await failureOf(work);
  expect(error).toBeInstanceOf(ApiError);
  const { code, status, retryAfterSeconds, message } = error as ApiError;
  expect([code, status, retryAfterSeconds]).toEqual(['RESOURCE_EXHAUSTED', 429, undefined]);
  return message;
}

const putAll = async (...nodes: readonly CanonicalNode[]): Promise<void> => {
  for (const node of nodes) await world.put(await world.begin(node), node.bytes);
};

describe('a quota of nodes', () => {
  test('refuses the first publication beyond it and keeps its upload for when there is room', async () => {
    const [one, two] = [smallNode(1), smallNode(2)];
    await world.publish(one);
    limit({ maxNodes: 1 });
    await putAll(two);
    expect(await refusalOf(world.lease(two))).toContain(
      'the Space would be exceeded: 1 of 1 nodes are in use',
    );
    expect(await world.row(two)).toBe(undefined);
    // Each refused lease keeps the upload as any lease does.
    world.now += 23 * 60 * MINUTE_MS;
    await refusalOf(world.lease(two));
    world.now += 23 * 60 * MINUTE_MS;
    await world.sweepAll();
    limit({ maxNodes: 2 });
    expect((await world.lease(two)).state).toBe('ready');
  });

  test('counts a parent when it is made waiting, not again when it becomes ready', async () => {
    const child = smallNode(1);
    const parent = smallNode(2, [child.hash]);
    limit({ maxNodes: 2 });
    await putAll(parent);
    expect((await world.lease(parent)).state).toBe('validated_awaiting_children');
    await world.publish(child);
    expect((await world.lease(parent)).state).toBe('ready');
    await putAll(smallNode(3));
    await refusalOf(world.lease(smallNode(3)));
  });

  test('of 0 lets nothing be stored', async () => {
    limit({ maxNodes: 0 });
    await putAll(smallNode(1));
    await refusalOf(world.lease(smallNode(1)));
    expect((await getUsage(world.core, SPACE)).nodeCount).toBe(0);
  });

  test('is never exceeded by many that publish at once', async () => {
    const nodes = Array.from({ length: 8 }, (_, index) => smallNode(index));
    await putAll(...nodes);
    limit({ maxNodes: 5 });
    const answers = await Promise.allSettled(nodes.map((node) => world.lease(node)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect((await getUsage(world.core, SPACE)).nodeCount).toBe(5);
  });
});

describe('a quota of bytes', () => {
  test('counts canonical bytes, exactly', async () => {
    const [one, two] = [smallNode(1), smallNode(2)];
    const both = one.bytes.length + two.bytes.length;
    await putAll(one, two);
    limit({ maxBytes: both - 1 });
    expect((await world.lease(one)).state).toBe('ready');
    expect(await refusalOf(world.lease(two))).toContain(
      `${one.bytes.length} of ${both - 1} bytes are in use, and this request needs ${two.bytes.length} more`,
    );
    limit({ maxBytes: both });
    expect((await world.lease(two)).state).toBe('ready');
  });

  test('refuses a PUT by its declared length, whose URL can be used once there is room', async () => {
    const node = objectNode(1);
    const instruction = await world.begin(node);
    limit({ maxBytes: node.bytes.length - 1 });
    expect(await refusalOf(world.put(instruction, node.bytes, node.bytes.length))).toContain('0 of');
    expect(world.objectFiles()).toEqual([]);
    limit({ maxBytes: node.bytes.length });
    await world.put(instruction, node.bytes, node.bytes.length);
    limit({ maxBytes: 0 });
    expect(await failureOf(world.put(instruction, node.bytes, node.bytes.length))).toMatchObject({
      status: 412,
    });
    limit({ maxBytes: node.bytes.length });
    expect((await world.lease(node)).state).toBe('ready');
  });

  test('has room again after a collection', async () => {
    const [one, two] = [objectNode(1), objectNode(2)];
    await world.publish(one);
    await putAll(two);
    limit({ maxBytes: one.bytes.length });
    await refusalOf(world.lease(two));
    world.now += 2 * MINUTE_MS;
    await runGc(world.core, SPACE, 10);
    expect((await world.lease(two)).state).toBe('ready');
  });
});

describe('a quota never refuses', () => {
  test('renewals, reads, commits and collections', async () => {
    const node = smallNode(1);
    await world.publish(node);
    limit({ maxBytes: 0, maxNodes: 0 });
    expect((await world.lease(node)).state).toBe('ready');
    const changes = [{ hash: node.hash, delta: 1 }];
    await updateRootRefs(world.core, SPACE, 'd', { requestId: 'r', changes });
    await runGc(world.core, SPACE, 10);
  });

  test('healing, its PUT included', async () => {
    const node = objectNode(1);
    await world.publish(node);
    await world.spoil(node, 'lost');
    const row = await world.row(node);
    const { setRotten } = await import('./contents.ts');
    await world.core.metadata.transact(SPACE, setRotten, {
      ...{ hash: node.hash, generation: row?.generation as string, instead: undefined, packed: undefined },
    });
    limit({ maxBytes: 0, maxNodes: 0 });
    const instruction = await world.begin(node);
    await world.put(instruction, node.bytes, node.bytes.length);
    expect((await world.lease(node)).state).toBe('ready');
  });
});

describe('a quota of the App', () => {
  const held = (bytes: number, nodes: number) => {
    world.quotas.app = { limits: { maxBytes: 1000, maxNodes: 10 }, stored: { bytes, nodes } };
  };

  test('judges by the sum that the process knows, and keeps room while it publishes', async () => {
    const [one, two] = [smallNode(1), smallNode(2)];
    await putAll(one, two);
    held(0, 9);
    expect((await world.lease(one)).state).toBe('ready');
    expect(world.quotas.app?.stored).toEqual({ bytes: one.bytes.length, nodes: 10 });
    expect(await refusalOf(world.lease(two))).toContain('the App would be exceeded: 10 of 10 nodes');
    held(1000 - two.bytes.length + 1, 0);
    await refusalOf(world.lease(two));
    await refusalOf(world.lease(two));
    expect(world.quotas.reserved).toBe(0);
    held(0, 0);
    expect((await world.lease(two)).state).toBe('ready');
  });

  test('is not exceeded by many that publish at once, and a failed publication gives its room back', async () => {
    const nodes = Array.from({ length: 8 }, (_, index) => smallNode(index));
    await putAll(...nodes);
    held(0, 6);
    const answers = await Promise.allSettled(nodes.map((node) => world.lease(node)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
    expect([world.quotas.app?.stored.nodes, world.quotas.reserved]).toEqual([10, 0]);
    limit({ maxNodes: 0 });
    held(0, 0);
    for (const node of nodes) await world.lease(node).catch(() => undefined);
    expect([world.quotas.app?.stored.nodes, world.quotas.reserved]).toEqual([0, 0]);
  });
});
