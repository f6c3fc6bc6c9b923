/** Quotas: what they refuse, and what they never do (docs/operations.md, Quotas). */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { runGc } from './collect/run-gc.ts';
import { judgeQuotas, NOTHING_STORED, type QuotaInput, type QuotaLimits, type Stored } from './quotas.ts';
import { getUsage } from './read/get-usage.ts';
import { updateRootRefs } from './refs/update-root-refs.ts';
import {
  CoreWorld,
  DAY_MS,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from './test/core-fixture.ts';
import { PackClient } from './test/pack-fixture.ts';

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

const pending = async (): Promise<number> => (await world.core.metadata.readHoldings(SPACE)).pendingBytes;

const putAll = async (...nodes: readonly CanonicalNode[]): Promise<void> => {
  for (const node of nodes) await world.put(await world.begin(node), node.bytes, node.bytes.length);
};

describe('a quota of nodes', () => {
  test('refuses the first publication beyond it, deletes its bytes at once, and asks for them again', async () => {
    const [one, two, large] = [smallNode(1), smallNode(2), objectNode(3)];
    await world.publish(one);
    limit({ maxNodes: 1 });
    await putAll(two, large);
    expect(await pending()).toBe(two.bytes.length + large.bytes.length);
    expect(await refusalOf(world.lease(two))).toContain('the Space would be exceeded: 1 of 1 node is in use');
    expect(await world.row(two)).toBe(undefined);
    expect(await pending()).toBe(large.bytes.length);
    await refusalOf(world.lease(large));
    expect([await pending(), world.objectFiles()]).toEqual([0, []]);
    for (const node of [two, large]) expect((await world.lease(node)).state).toBe('awaiting_upload');
    limit({ maxNodes: 3 });
    await putAll(two, large);
    for (const node of [two, large]) expect((await world.lease(node)).state).toBe('ready');
    expect(await pending()).toBe(0);
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
    await putAll(two);
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
    await putAll(two);
    expect((await world.lease(two)).state).toBe('ready');
  });

  test('counts what was received and is not judged, and gives it back when it goes', async () => {
    const [one, two, three] = [smallNode(1), objectNode(2), smallNode(3)];
    limit({ maxBytes: one.bytes.length + two.bytes.length });
    await putAll(one, two);
    expect(await refusalOf(world.put(await world.begin(three), three.bytes, 1))).toContain(
      `${one.bytes.length + two.bytes.length} of ${one.bytes.length + two.bytes.length} bytes are in use`,
    );
    expect((await world.lease(one)).state).toBe('ready');
    await refusalOf(world.put(await world.begin(three), three.bytes, three.bytes.length));
    world.now += 2 * DAY_MS;
    await world.sweepAll();
    expect([await pending(), world.objectFiles()]).toEqual([0, []]);
    await world.put(await world.begin(three), three.bytes, three.bytes.length);
    expect(await pending()).toBe(three.bytes.length);
  });

  test('counts a PUT without a declared length at the limit of a node, until it is received', async () => {
    const [one, two] = [objectNode(1), objectNode(2)];
    const { nodeBytesMax } = world.core.settings;
    const instruction = await world.begin(one);
    limit({ maxBytes: nodeBytesMax - 1 });
    await refusalOf(world.put(instruction, one.bytes));
    expect([await pending(), world.objectFiles()]).toEqual([0, []]);
    limit({ maxBytes: nodeBytesMax });
    await world.put(instruction, one.bytes);
    expect(await pending()).toBe(one.bytes.length);
    await refusalOf(world.put(await world.begin(two), two.bytes));
  });

  test('is never exceeded by many that are sent at once', async () => {
    const nodes = Array.from({ length: 8 }, (_, index) => objectNode(index));
    const instructions = await Promise.all(nodes.map((node) => world.begin(node)));
    const bytes = nodes[0]?.bytes.length ?? 0;
    limit({ maxBytes: 5 * bytes });
    const answers = await Promise.allSettled(
      nodes.map((node, index) => world.put(instructions[index] as never, node.bytes, node.bytes.length)),
    );
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect(await pending()).toBe(5 * bytes);
  });
});

describe('a quota of commits', () => {
  const commit = (requestId: string, hash: string) =>
    updateRootRefs(world.core, SPACE, 'd', { requestId, changes: [{ hash, delta: 1 }] });
  const commits = async () => (await world.core.metadata.readHoldings(SPACE)).commitRows;

  test('refuses the first beyond it; repeats of earlier ones and what fails anyway are answered as ever', async () => {
    const node = smallNode(1);
    await world.publish(node);
    limit({ maxCommits: 2 });
    for (const id of ['a', 'b']) await commit(id, node.hash);
    expect(await refusalOf(commit('c', node.hash))).toContain('the Space would be exceeded: 2 of 2 commits');
    expect(await commit('b', node.hash)).toMatchObject({ idempotent: true, revision: 2 });
    expect((await failureOf(commit('c', 'ab'.repeat(32)))).status).toBe(404);
    limit({ maxCommits: 3 });
    expect(await commit('c', node.hash)).toMatchObject({ idempotent: false, revision: 3 });
    expect(await commits()).toBe(3);
  });

  test('is never exceeded by many at once', async () => {
    const node = smallNode(1);
    await world.publish(node);
    limit({ maxCommits: 5 });
    const ids = Array.from({ length: 9 }, (_, index) => `r${index}`);
    const answers = await Promise.allSettled(ids.map((id) => commit(id, node.hash)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect(await commits()).toBe(5);
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
      ...{ hash: node.hash, generation: row?.generation as string, packed: undefined },
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
    await refusalOf(world.put(await world.begin(two), two.bytes, two.bytes.length));
    expect(world.quotas.reserved).toBe(0);
    held(0, 0);
    await putAll(two);
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

  test('is looked at beside that of the Space before a pack is opened', async () => {
    const open = () => new PackClient(world, false).open([smallNode(1)]);
    held(0, 0);
    limit({ maxNodes: 0 });
    expect(await refusalOf(open())).toContain('the Space would be exceeded');
    held(0, 10);
    limit({ maxNodes: 9 });
    expect(await refusalOf(open())).toContain('the App would be exceeded');
    held(0, 0);
    expect((await open()).id).toBeString();
  });

  test('that is exceeded stands against nothing that needs no room', async () => {
    const excess = { holder: 'App', unit: 'nodes', stored: 9, more: 1, limit: 1 } as const;
    const unlimited = () => expect.unreachable('no limit needs this sum');
    const judge = (more: Stored, app?: QuotaInput['app']) =>
      judgeQuotas({ space: undefined, app }, more, unlimited);
    expect(await judge({ bytes: 0, nodes: 1 }, { excess })).toEqual({ kind: 'full', excess });
    expect(await judge(NOTHING_STORED, { excess })).toBeUndefined();
    expect(await judge({ bytes: 0, nodes: 1 })).toBeUndefined();
  });
});
