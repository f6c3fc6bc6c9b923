/** leases: what many nodes are told at once, and the pack that is opened for what is absent (docs/bulk.md, Lease many nodes). */
import { describe, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { makePack, PACK_BYTES_LIMIT, plain } from '../../../../test/support/planted-pack.ts';
import { runGc } from '../collect/run-gc.ts';
import { leaseNode } from '../lease/lease-node.ts';
import { getUsage } from '../read/get-usage.ts';
import { ContentLost } from '../store-failure.ts';
import {
  CoreWorld,
  DAY_MS,
  failureOf,
  MINUTE_MS,
  ORIGIN,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { PACK_RECEIVERS, PACK_TYPE, PackClient, statesOf, usePackWorld } from '../test/pack-fixture.ts';
import { leaseNodes } from './lease-nodes.ts';
import { leasePack } from './lease-pack.ts';

const URL_LIFE_MS = 5 * MINUTE_MS;
const UPLOADS_MAX = 8;

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(isDirect, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  const publish = (...nodes: readonly CanonicalNode[]): Promise<unknown> => client.send(nodes);
  const rowOf = async (node: CanonicalNode) => {
    const row = await world.row(node);
    if (row === undefined) throw new Error('there is no such row');
    return row;
  };
  const setRotten = (node: CanonicalNode) =>
    world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(node.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten' });
    });

  test('while the server makes no changes each lease but a renewal is refused, of a pack too', async () => {
    const [ready, absent, sent] = [smallNode(1), smallNode(2), smallNode(3)];
    const earlier = await client.send([ready]);
    const pack = await client.open([sent]);
    expect(await client.put(pack, makePack([plain(sent)]))).toBe(200);
    const only = { renewsOnly: true, uploadOrigin: ORIGIN };
    const leases = (...nodes: readonly CanonicalNode[]) => {
      const request = { hashes: nodes.map(({ hash }) => hash), pack: false, leaseDurationMs: DAY_MS };
      return leaseNodes(world.core, SPACE, request, only);
    };
    for (const refused of [
      () => leasePack(world.core, SPACE, pack.id, MINUTE_MS, only),
      () => leasePack(world.core, SPACE, earlier.id, MINUTE_MS, only),
      () => leases(ready, absent),
      () => leaseNode(world.core, SPACE, absent.hash, MINUTE_MS, () => ORIGIN, only),
    ])
      expect((await failureOf(refused())).message).toContain('makes no changes');
    expect(await world.row(sent)).toBeUndefined();
    expect(statesOf(await leases(ready))).toEqual(['ready']);
    expect((await rowOf(ready)).leaseExpiresAt).toBe(world.now + DAY_MS);
    expect(statesOf(await client.lease(pack.id))).toEqual(['ready']);
  });

  test('each hash has one result in order: what leaseNode answers for a ready or waiting node, else absent', async () => {
    const [ready, claimed, rotten] = [smallNode(1), objectNode(2), smallNode(3)];
    const [never, asked, sent] = [smallNode(4), smallNode(5), smallNode(6)];
    const waiting = smallNode(7, [never.hash, ready.hash, never.hash, asked.hash]);
    await world.upload(claimed);
    world.now += 2 * MINUTE_MS;
    world.doors.delete = () => Promise.reject(new Error('planted: cannot delete'));
    await expect(runGc(world.core, SPACE, 10)).rejects.toThrow('could not be deleted');
    delete world.doors.delete;
    await publish(ready, rotten, waiting);
    await setRotten(rotten);
    await world.begin(asked);
    const { upload } = await world.begin(sent);
    if (isDirect) world.direct.put(upload.url, sent.bytes);
    else await world.put({ upload } as never, sent.bytes);

    const nodes = [rotten, waiting, sent, ready, asked, never, claimed];
    const { results, pack } = await client.leases(nodes, { durationMs: 2 * MINUTE_MS });
    expect(pack).toBeUndefined();
    expect(results).toEqual([
      { state: 'absent', hash: rotten.hash },
      { state: 'validated_awaiting_children', hash: waiting.hash, childHashes: [never.hash, asked.hash] },
      { state: 'absent', hash: sent.hash },
      {
        state: 'ready',
        hash: ready.hash,
        leaseStartedAt: world.now,
        leaseExpiresAt: world.now + 2 * MINUTE_MS,
      },
      { state: 'absent', hash: asked.hash },
      { state: 'absent', hash: never.hash },
      { state: 'absent', hash: claimed.hash },
    ]);
    expect((await rowOf(claimed)).state).toBe('claimed');
    // It opens no upload of its own.
    for (const node of [never, claimed, rotten]) {
      expect(await world.core.metadata.findUpload(SPACE, node.hash)).toBeUndefined();
    }
    expect(await world.lease(ready)).toEqual(results[3] as never);
    expect(await world.lease(waiting)).toEqual(results[1] as never);
  });

  test('a pack is opened only if it is asked for and something is absent', async () => {
    const [one, two] = [smallNode(1), smallNode(2)];
    expect((await client.leases([one])).pack).toBeUndefined();
    const { pack, results } = await client.leases([one, two], { pack: true });
    expect(statesOf({ results })).toEqual(['absent', 'absent']);
    expect(pack).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      method: 'PUT',
      url: expect.stringMatching(isDirect ? /^direct:/ : new RegExp(`^${ORIGIN}/uploads/`)),
      expiresAt: world.now + URL_LIFE_MS,
      headers: expect.objectContaining({
        'if-none-match': '*',
        ...(isDirect ? {} : { 'content-type': PACK_TYPE }),
      }),
      bytesMax: PACK_BYTES_LIMIT,
      recordsMax: 4096,
    });
    expect(await client.put(pack!, makePack([one, two].map(plain)))).toBe(200);
    expect(statesOf(await client.lease(pack!.id))).toEqual(['ready', 'ready']);
    expect((await client.leases([one, two], { pack: true })).pack).toBeUndefined();
    const waiting = smallNode(3, [smallNode(9).hash]);
    await publish(waiting);
    expect((await client.leases([waiting], { pack: true })).pack).toBeUndefined();
  });

  test('a repeated request before any upload gets the same pack, signed anew', async () => {
    const nodes = [smallNode(1), smallNode(2)];
    const first = await client.open(nodes);
    world.now += MINUTE_MS;
    const again = await client.open(nodes);
    expect([again.id, again.expiresAt]).toEqual([first.id, world.now + URL_LIFE_MS]);
    expect((await client.open([smallNode(1)])).id).not.toBe(first.id);
    expect((await client.open([...nodes, smallNode(3)])).id).not.toBe(first.id);
    // Good beyond the end of the first URL.
    world.now = first.expiresAt + 1;
    expect(await client.put(first, makePack([]))).toBe(403);
    expect(await client.put(again, makePack(nodes.map(plain)))).toBe(200);
    // Something has come, though no lease has seen it: another pack, and that one again.
    const other = await client.open(nodes);
    expect(other.id).not.toBe(first.id);
    expect((await client.open(nodes)).id).toBe(other.id);
    expect(statesOf(await client.lease(first.id))).toEqual(['ready', 'ready']);
  });

  test('a pack is not given again once its URL has expired or it was leased', async () => {
    const nodes = [smallNode(1)];
    const first = await client.open(nodes);
    world.now = first.expiresAt;
    const second = await client.open(nodes);
    expect(second.id).not.toBe(first.id);
    expect(await client.put(second, makePack([]))).toBe(200);
    expect((await client.lease(second.id)).results).toEqual([]);
    expect((await client.open(nodes)).id).not.toBe(second.id);
  });

  test('ready nodes beside a pack are leased at least until 60 s after its URL ends, otherwise as long as asked', async () => {
    const [ready, absent] = [smallNode(1), smallNode(2)];
    await publish(ready);
    world.now += DAY_MS;
    await client.leases([ready, absent]);
    expect((await rowOf(ready)).leaseExpiresAt).toBe(world.now + MINUTE_MS);
    const { pack, results } = await client.leases([ready, absent], { pack: true });
    const until = pack!.expiresAt + 60_000;
    expect(results[0]).toMatchObject({ state: 'ready', leaseExpiresAt: until });
    expect((await rowOf(ready)).leaseExpiresAt).toBe(until);
    await client.leases([ready, absent], { pack: true, durationMs: DAY_MS });
    expect((await rowOf(ready)).leaseExpiresAt).toBe(world.now + DAY_MS);
  });

  test('a parent whose last missing children become ready in the same request is ready, wherever it stands', async () => {
    const leaf = smallNode(1);
    const middle = smallNode(2, [leaf.hash]);
    const top = smallNode(3, [middle.hash, leaf.hash]);
    await publish(top, middle);
    if (isDirect) await world.upload(leaf);
    else await world.publish(leaf);
    expect(statesOf(await client.leases([top, middle, leaf]))).toEqual(['ready', 'ready', 'ready']);
  });

  test('over the limit of uploads the answer is 429 and no lease changes; a slot is freed by leasing the pack or by its end', async () => {
    const ready = smallNode(1);
    await publish(ready);
    world.now += DAY_MS;
    const before = await rowOf(ready);
    const packs = [];
    for (let index = 0; index < UPLOADS_MAX; index += 1)
      packs.push(await client.open([smallNode(10 + index)]));
    const isRefused = async (): Promise<void> => {
      const error = await failureOf(client.leases([ready, smallNode(99)], { pack: true }));
      expect([error.code, error.status, (error.retryAfterSeconds ?? 0) > 0]).toEqual([
        'CAS_UPLOAD_LIMIT',
        429,
        true,
      ]);
      expect((await failureOf(world.lease(smallNode(98)))).code).toBe('CAS_UPLOAD_LIMIT');
      expect(await rowOf(ready)).toEqual(before);
    };
    await isRefused();
    const sent = packs[0]!;
    expect(await client.put(sent, makePack([plain(smallNode(10))]))).toBe(200);
    await isRefused();
    expect(statesOf(await client.leases([ready, smallNode(99)]))).toEqual(['ready', 'absent']);
    await client.lease(sent.id);
    const last = await client.open([smallNode(99)]);
    expect((await failureOf(world.lease(smallNode(98)))).code).toBe('CAS_UPLOAD_LIMIT');
    world.now = last.expiresAt;
    await client.open([smallNode(97)]);
  });

  test('a quota without room for one node opens no pack, except for a node to heal', async () => {
    const [ready, rotten] = [smallNode(1), smallNode(2)];
    await publish(ready, rotten);
    for (const limits of [
      { maxNodes: 2, maxBytes: undefined },
      { maxNodes: undefined, maxBytes: (await getUsage(world.core, SPACE)).readyStoredBytes },
    ]) {
      world.quotas.space = limits;
      const error = await failureOf(client.leases([ready, smallNode(3)], { pack: true }));
      expect([error.code, error.status, error.retryAfterSeconds]).toEqual([
        'RESOURCE_EXHAUSTED',
        429,
        undefined,
      ]);
      expect(statesOf(await client.leases([ready, smallNode(3)]))).toEqual(['ready', 'absent']);
    }
    await setRotten(rotten);
    world.core.rottenNodes.noteRotten(SPACE, rotten.hash, new ContentLost('planted'));
    expect(statesOf(await client.send([rotten]))).toEqual(['ready']);
    expect((await rowOf(rotten)).state).toBe('ready');
  });
});

test('an answer names at most 16,384 children in full, then one child for each parent', async () => {
  const world = await CoreWorld.open();
  const client = new PackClient(world, false);
  const parents = Array.from({ length: 67 }, (__, index) => {
    const refs = Array.from({ length: index < 66 ? 256 : 3 }, (___, ref) =>
      (index * 256 + ref + 1).toString(16).padStart(64, '0'),
    );
    return smallNode(index, refs);
  });
  const countsOf = ({ results }: { readonly results: readonly object[] }): number[] =>
    results.map((result) => ('childHashes' in result ? (result.childHashes as string[]).length : -1));
  const expected = [...Array.from({ length: 64 }, () => 256), 1, 1, 1];
  const answer = await client.send(parents);
  expect(countsOf(answer)).toEqual(expected);
  expect(answer.results[66]).toMatchObject({ childHashes: [parents[66]!.refs[0]!] });
  expect(countsOf(await client.lease(answer.id))).toEqual(expected);
  // Before the bound is reached nothing is cut.
  expect(countsOf(await client.leases([parents[66]!, ...parents.slice(0, 65)]))).toEqual([
    3,
    ...expected.slice(0, 64),
    1,
  ]);
  await world.close();
});
