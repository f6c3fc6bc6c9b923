/** Single calls that overlap: few requests together, and each with its own outcome. */

import { describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import type { CasError } from './errors.ts';
import { hashNode, type NewNode } from './new-node.ts';
import { FakeSpace, failure, json, rejection } from './test/fake-space-fixture.ts';

const COUNT = 200;
const TOGETHER = ['leases', 'pack-upload', 'pack-lease'];

const nodeOf = (index: number): NewNode => ({ contentType: 'text/plain', content: `node ${index}` });
const NODES = Array.from({ length: COUNT }, (_, index) => nodeOf(index));

function bulkSpace(): FakeSpace {
  const space = new FakeSpace();
  space.offersBulk = true;
  return space;
}

describe('putNode, many at once', () => {
  test('three requests store them all', async () => {
    const space = bulkSpace();
    const client = space.client();
    const results = await Promise.all(NODES.map((node) => client.putNode(node)));
    expect(space.kinds()).toEqual(TOGETHER);
    expect(results.map(({ hash }) => hash)).toEqual(await Promise.all(NODES.map(hashNode)));
    expect(new Set(results.map(({ state, uploaded }) => `${state} ${uploaded}`))).toEqual(
      new Set(['ready true']),
    );
    expect(space.nodes.size).toBe(COUNT);
  });

  test('one by itself needs no Bulk', async () => {
    const space = bulkSpace();
    const client = space.client();
    for (const node of NODES.slice(0, 2)) await client.putNode(node);
    expect(space.kinds()).toEqual(['lease', 'upload', 'lease', 'lease', 'upload', 'lease']);
  });

  test('without Bulk each is stored by itself', async () => {
    const space = new FakeSpace();
    const client = space.client();
    const results = await Promise.all(NODES.map((node) => client.putNode(node)));
    expect(results.every(({ state, uploaded }) => state === 'ready' && uploaded)).toBe(true);
    expect(new Set(space.kinds())).toEqual(new Set(['lease', 'upload']));
  });

  test('children and parents, and the same node twice', async () => {
    const space = bulkSpace();
    const client = space.client();
    const refs = [await hashNode(nodeOf(0)), await hashNode(nodeOf(1))];
    const parent = { contentType: 'text/plain', content: 'parent', refs };
    const results = await Promise.all(
      [parent, nodeOf(0), nodeOf(1), nodeOf(0)].map((node) => client.putNode(node)),
    );
    expect(results.map(({ state }) => state)).toEqual(Array(4).fill('ready'));
    expect(results.map(({ uploaded }) => uploaded)).toEqual([true, true, true, false]);
    expect(space.kinds()).toEqual(TOGETHER);
  });

  test('each lease duration that was asked for is leased', async () => {
    const space = bulkSpace();
    const client = space.client();
    const durations = [60_000, 90_000, 60_000, 90_000];
    await Promise.all(
      durations.map((leaseDurationMs, index) => client.putNode(nodeOf(index), { leaseDurationMs })),
    );
    const leases = space.calls.filter(({ kind }) => kind === 'leases');
    const asked = leases.map(({ body }) => JSON.parse(new TextDecoder().decode(body)));
    expect(asked.map(({ leaseDurationMs, hashes }) => [leaseDurationMs, hashes.length]).toSorted()).toEqual([
      [60_000, 2],
      [90_000, 2],
    ]);
  });

  test('a node that is refused fails alone, with its own reason', async () => {
    const space = bulkSpace();
    const client = space.client();
    const bad = await hashNode(nodeOf(1));
    const rejected = { code: 'NODE_CONFLICT', message: 'planted' };
    space.plant('pack-lease', () => {
      const results = NODES.slice(0, 3).map(async (node) => {
        const hash = await hashNode(node);
        if (hash === bad) return { state: 'rejected', hash, rejection: rejected };
        return { state: 'ready', hash, leaseStartedAt: 1, leaseExpiresAt: 2 };
      });
      return Promise.all(results).then((all) => json({ results: all }));
    });
    const upload = { method: 'PUT', url: 'http://store.test/uploads/x/0', expiresAt: 1, headers: {} };
    const state = 'awaiting_replacement_upload';
    space.plant(
      'lease',
      () => undefined,
      () => json({ hash: bad, state, rejection: rejected, upload }),
    );
    const settled = await Promise.allSettled(
      [...NODES.slice(0, 3), { ...nodeOf(3), refs: ['no hash'] }].map((node) => client.putNode(node)),
    );
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected']);
    const codes = settled.flatMap((each) =>
      each.status === 'rejected' ? [(each.reason as CasError).code] : [],
    );
    expect(codes).toEqual(['NODE_CONFLICT', 'INVALID_ARGUMENT']);
  });

  test('a node that was damaged on the way travels again in a pack', async () => {
    const space = bulkSpace();
    const client = space.client();
    space.plant('pack-upload', async ({ url, body }) => {
      const damaged = body.slice();
      damaged[damaged.length - 1]! ^= 1;
      return space.bulk.answer('pack-upload', url.pathname, damaged);
    });
    const results = await Promise.all(NODES.map((node) => client.putNode(node)));
    expect(results.filter(({ state, uploaded }) => state === 'ready' && uploaded)).toHaveLength(COUNT);
    expect(space.kinds()).toEqual([...TOGETHER, ...TOGETHER]);
  });

  test('a refusal of the whole pack is asked about node by node', async () => {
    const space = bulkSpace();
    const client = space.client();
    space.plant('leases', () => failure(429, 'RESOURCE_EXHAUSTED'));
    space.plant('lease', () => failure(429, 'RESOURCE_EXHAUSTED'));
    const settled = await Promise.allSettled(NODES.map((node) => client.putNode(node)));
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(space.nodes.size).toBe(COUNT - 1);
  });

  test('what every node would fail with is not asked again for each', async () => {
    const space = bulkSpace();
    const client = space.client({ retry: { attemptsMax: 1 } });
    space.plant('leases', () => failure(403, 'FORBIDDEN'));
    const settled = await Promise.allSettled(NODES.map((node) => client.putNode(node)));
    expect(settled.every(({ status }) => status === 'rejected')).toBe(true);
    expect(space.kinds()).toEqual(['leases']);
  });

  test('a call that is given up leaves the others alone', async () => {
    const space = bulkSpace();
    const client = space.client();
    const controller = new AbortController();
    const reason = new Error('enough');
    space.plant('leases', () => {
      controller.abort(reason);
      return undefined;
    });
    const [given, ...others] = NODES.map((node, index) =>
      client.putNode(node, index === 0 ? { signal: controller.signal } : {}),
    );
    expect(await rejection(given as Promise<unknown>)).toBe(reason);
    expect((await Promise.all(others)).every(({ state }) => state === 'ready')).toBe(true);
    expect(space.nodes.size).toBe(COUNT - 1);
    // Put again while nothing of it is left, it is stored.
    expect((await client.putNode(nodeOf(0))).uploaded).toBe(true);
  });

  test('when all are given up their request is too', async () => {
    const space = bulkSpace();
    const client = space.client();
    const controller = new AbortController();
    const reason = new Error('enough');
    space.plant('leases', () => {
      controller.abort(reason);
      return new Promise<Response>(() => undefined);
    });
    const { signal } = controller;
    const calls = NODES.map((node) => rejection(client.putNode(node, { signal })));
    expect(new Set(await Promise.all(calls))).toEqual(new Set([reason]));
    expect(space.calls.map(({ kind, signal: sent }) => [kind, sent?.aborted])).toEqual([['leases', true]]);
  });

  test('contents of Blobs wait for memory', async () => {
    const space = bulkSpace();
    const client = space.client();
    let held = 0;
    let mostHeld = 0;
    class LargeBlob extends Blob {
      override readonly size = 20 * MIB_BYTES;
      override async arrayBuffer(): Promise<ArrayBuffer> {
        held += 1;
        mostHeld = Math.max(mostHeld, held);
        return super.arrayBuffer();
      }
    }
    const puts = Array.from({ length: 4 }, async (_, index) => {
      await client.putNode({ contentType: 'text/plain', content: new LargeBlob([`blob ${index}`]) });
      held -= 1;
    });
    await Promise.all(puts);
    expect([mostHeld, space.nodes.size]).toEqual([1, 4]);
  });
});

describe('putNodes', () => {
  test('takes nodes from a generator, few requests for all', async () => {
    const space = bulkSpace();
    const results = await space.client().putNodes(
      (function* () {
        yield* NODES;
      })(),
    );
    expect(results.map(({ hash }) => hash)).toEqual(await Promise.all(NODES.map(hashNode)));
    expect(space.kinds()).toEqual(TOGETHER);
  });

  test('stores the others, then rejects with the first failure', async () => {
    const space = bulkSpace();
    const nodes = [nodeOf(0), { ...nodeOf(1), refs: ['A'.repeat(64)] }, nodeOf(2)];
    const error = (await rejection(space.client().putNodes(nodes))) as CasError;
    expect(error.code).toBe('INVALID_ARGUMENT');
    expect(error.message).toContain('node 1');
    expect(space.nodes.size).toBe(2);
  });

  test('fails with the reason of an aborted signal', async () => {
    const reason = new Error('enough');
    const call = bulkSpace()
      .client()
      .putNodes(NODES, { signal: AbortSignal.abort(reason) });
    expect(await rejection(call)).toBe(reason);
  });
});

describe('getNode and getNodes', () => {
  async function filled(): Promise<{ space: FakeSpace; hashes: string[] }> {
    const space = bulkSpace();
    return { space, hashes: NODES.map((_, index) => space.store(`node ${index}`)) };
  }
  const textOf = ({ content }: { readonly content: Uint8Array }): string => new TextDecoder().decode(content);
  const ABSENT = '0'.repeat(64);

  test('one request reads many', async () => {
    const { space, hashes } = await filled();
    const client = space.client();
    const nodes = await Promise.all(hashes.map((hash) => client.getNode(hash)));
    expect(nodes.map(textOf)).toEqual(NODES.map(({ content }) => content as string));
    expect(nodes.map(({ metadata }) => metadata.hash)).toEqual(hashes);
    expect(space.kinds()).toEqual(['reads']);
  });

  test('one that is absent fails alone', async () => {
    const { space, hashes } = await filled();
    const client = space.client();
    const settled = await Promise.allSettled([ABSENT, ...hashes].map((hash) => client.getNode(hash)));
    const failed = settled.flatMap((each) =>
      each.status === 'rejected' ? [(each.reason as CasError).code] : [],
    );
    expect(failed).toEqual(['NOT_FOUND']);
    expect(space.kinds()).toEqual(['reads', 'metadata']);
  });

  test('without Bulk each is read by itself', async () => {
    const { space, hashes } = await filled();
    space.offersBulk = false;
    const client = space.client();
    const nodes = await Promise.all(hashes.map((hash) => client.getNode(hash)));
    expect(nodes.map(textOf)).toEqual(NODES.map(({ content }) => content as string));
    expect((await client.getNode(hashes[0] ?? '')).state).toMatchObject({ rootRefCount: 0 });
  });

  test('a call that is given up leaves the others alone', async () => {
    const { space, hashes } = await filled();
    const client = space.client();
    const controller = new AbortController();
    space.plant('reads', () => {
      controller.abort(new Error('enough'));
      return undefined;
    });
    const [given, ...others] = hashes.map((hash, index) =>
      client.getNode(hash, index === 0 ? { signal: controller.signal } : {}),
    );
    expect(((await rejection(given as Promise<unknown>)) as Error).message).toBe('enough');
    expect(await Promise.all(others)).toHaveLength(COUNT - 1);
  });

  test('getNodes gives them in order, also twice, from any iterable', async () => {
    const { space, hashes } = await filled();
    const asked = [...hashes, ...hashes.slice(0, 2)];
    const nodes = await Array.fromAsync(space.client().getNodes(new Set(hashes)));
    expect(nodes.map(textOf)).toEqual(NODES.map(({ content }) => content as string));
    const again = await Array.fromAsync(space.client().getNodes(asked));
    expect(again.map(({ metadata }) => metadata.hash)).toEqual(asked);
    space.offersBulk = false;
    const singly = await Array.fromAsync(space.client().getNodes(asked));
    expect(singly.map(({ metadata }) => metadata.hash)).toEqual(asked);
  });

  test('getNodes ends at the one that is absent', async () => {
    const { space, hashes } = await filled();
    const got: string[] = [];
    const reading = (async () => {
      for await (const node of space.client().getNodes([hashes[0] ?? '', ABSENT, hashes[1] ?? ''])) {
        got.push(textOf(node));
      }
    })();
    expect(((await rejection(reading)) as CasError).code).toBe('NOT_FOUND');
    expect(got).toEqual(['node 0']);
  });
});
