/** Packs of the real engine: leases, PUTs, reads and compaction, each answer judged by the model. */
import { expect } from 'bun:test';
import { type BulkLeaseResponse, PACK_MEDIA_TYPE, type PackLeaseResponse } from '@holdfast/protocol';
import { compactPacks, moveLive } from '../../packages/server/core/packs/compact-packs.ts';
import { leaseNodes } from '../../packages/server/core/packs/lease-nodes.ts';
import { leasePack } from '../../packages/server/core/packs/lease-pack.ts';
import {
  moveSmall,
  type PackingWalk,
  packSmallNodes,
} from '../../packages/server/core/packs/pack-small-nodes.ts';
import { publishGroup } from '../../packages/server/core/packs/publish-group.ts';
import { receiveUpload } from '../../packages/server/core/packs/receive-upload.ts';
import { readNodes } from '../../packages/server/core/read/read-nodes.ts';
import { beforeTransactions } from '../../packages/server/core/test/pack-fixture.ts';
import { makePack, type PlantedRecord, packed, plain, takeApart } from '../support/planted-pack.ts';
import { putPackDirectly } from './apply-direct-put.ts';
import { getPoolNode, type PoolNode } from './node-pool.ts';
import type { PackStep } from './pack-steps.ts';
import type { ExpectedResult, ModelRecord } from './reference-packs.ts';
import { findReadable } from './reference-packs.ts';
import { at, type KnownPack, ORIGIN, type World } from './world.ts';

const COMPACTIONS_MAX = 50;

type Of<T extends PackStep['do']> = Extract<PackStep, { readonly do: T }>;

export async function applyPackStep(world: World, step: PackStep): Promise<void> {
  switch (step.do) {
    case 'leaseNodes':
      await lease(world, step);
      return;
    case 'sendPack':
      return send(world, step);
    case 'putPack': {
      const known = pickPack(world, step.pick);
      if (known !== undefined) await put(world, known, step);
      return;
    }
    case 'leasePack': {
      const known = pickPack(world, step.pick);
      if (known !== undefined) await leaseKnown(world, known, step.durationMs, step.crashes);
      return;
    }
    case 'readNodes':
      return read(world, step);
    case 'compact':
      return compact(world, step.crashes);
    case 'packSmall':
      return packSmall(world, step.crashes);
  }
}

/** Small picks are the newest. */
function pickPack(world: World, pick: number): KnownPack | undefined {
  return world.packs.length === 0 ? undefined : at([...world.packs].reverse(), pick);
}

function chosen(world: World, nodes: readonly number[]): readonly PoolNode[] {
  return [...new Set(nodes.map((node) => at(world.focus, node)))];
}

async function send(world: World, step: Of<'sendPack'>): Promise<void> {
  const known = await lease(world, { ...step, do: 'leaseNodes', wantsPack: true });
  if (known === undefined) return;
  await put(world, known, { ...step, do: 'putPack', pick: 0, spoilt: undefined, isCut: false });
  await leaseKnown(world, known, step.durationMs, false);
}

async function lease(world: World, step: Of<'leaseNodes'>): Promise<KnownPack | undefined> {
  const { durationMs, wantsPack, space } = step;
  const hashes = chosen(world, step.nodes).map(({ hash }) => hash);
  const request = { hashes, leaseDurationMs: durationMs, pack: wantsPack };
  const options = { renewsOnly: false, uploadOrigin: ORIGIN };
  const answer = await world.ask(() => leaseNodes(world.core, world.space(space), request, options));
  const expected = world.model(space).packs.leases(world.now, hashes, durationMs, wantsPack);
  if ('error' in expected) {
    world.see('leases: CAS_UPLOAD_LIMIT');
    expect(answer).toMatchObject({ error: expected.error, status: 429 });
    return undefined;
  }
  const { results, pack } = okOf<BulkLeaseResponse>(answer);
  for (const { state } of results) world.see(`leases: ${state}`);
  expect(results as unknown).toEqual(expected.results);
  expect(pack === undefined).toBe(expected.pack === undefined);
  if (pack === undefined || expected.pack === undefined) return undefined;
  expect(pack.expiresAt).toBe(expected.pack.urlExpiresAt);
  const earlier = world.packs.find(({ id }) => id === pack.id);
  if (earlier !== undefined) {
    world.see('leases: the same pack');
    expect(earlier.model).toBe(expected.pack);
  }
  const known = { space, id: pack.id, model: expected.pack, instruction: pack };
  world.packs.push(known);
  return known;
}

function okOf<T>(answer: { readonly ok: T } | { readonly error: string; readonly message: string }): T {
  if ('ok' in answer) return answer.ok;
  throw new Error(`expected success, got ${answer.error}: ${answer.message}`);
}

async function put(world: World, known: KnownPack, step: Of<'putPack'>): Promise<void> {
  const { instruction, model, space } = known;
  const nodes = chosen(world, step.nodes);
  const spoilt = step.spoilt === undefined ? undefined : nodes[step.spoilt];
  const records = nodes.map((node): PlantedRecord & ModelRecord => {
    const isSpoilt = node === spoilt;
    const canonical = isSpoilt ? flipLast(node.bytes) : node.bytes;
    const sent = { ...node, bytes: canonical };
    const record = step.isPacked ? packed(sent) : plain(sent);
    return { ...record, canonical, storedLength: record.stored.length };
  });
  const body = step.isCut ? Buffer.concat([makePack(records), Buffer.alloc(1)]) : makePack(records);
  if (world.engine.direct !== undefined) return putPackDirectly(world, known, body, records, step.isCut);
  const answer = await world.ask(() =>
    receiveUpload(world.core, {
      token: instruction.url.slice(`${ORIGIN}/uploads/`.length),
      ...{ contentType: PACK_MEDIA_TYPE, ifNoneMatch: '*', declaredLength: body.length },
      body: new Response(body).body,
    }),
  );
  if (instruction.expiresAt <= world.now) {
    expect(answer).toMatchObject({ error: 'FORBIDDEN', status: 403 });
  } else if (world.model(space).packs.put(model, records, step.isCut)) {
    world.see('pack: accepted');
    expect(answer).toEqual({ ok: undefined });
  } else {
    world.see('pack: finished already');
    expect(answer).toMatchObject({ error: 'CONFLICT', status: 412 });
  }
}

function flipLast(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  copy[copy.length - 1] = (copy.at(-1) as number) ^ 1;
  return copy;
}

class PlantedCrash extends Error {
  override readonly name = 'PlantedCrash';
}

const crash = (): never => {
  throw new PlantedCrash();
};

async function leaseKnown(
  world: World,
  known: KnownPack,
  durationMs: number,
  crashes: boolean,
): Promise<void> {
  const { space, id, model } = known;
  const core = crashes ? beforeTransactions(world.core, publishGroup, crash) : world.core;
  const state = model.state;
  const expected = world.model(space).packs.lease(world.now, model, durationMs, crashes);
  const answering = world.ask(() =>
    leasePack(core, world.space(space), id, durationMs, { renewsOnly: false }),
  );
  if ('error' in expected) {
    world.see(`pack lease: ${expected.error}`);
    if (expected.error === 'crash') await expect(answering).rejects.toThrow(PlantedCrash);
    else
      expect(await answering).toMatchObject({
        error: expected.error,
        status: expected.error === 'CONFLICT' ? 409 : 404,
      });
    return;
  }
  const { results, broken } = okOf<PackLeaseResponse>(await answering);
  for (const each of results) world.see(`pack lease, ${state}: ${each.state}`);
  const plainResults = results.map((each) =>
    each.state === 'rejected' ? { state: each.state, hash: each.hash, code: each.rejection.code } : each,
  );
  expect(plainResults as unknown as ExpectedResult[]).toEqual([...expected.results]);
  expect(broken !== undefined).toBe(expected.isBroken);
}

/** A damaged node is left out, and its row becomes rotten. */
async function read(world: World, { space, nodes, acceptsZstd }: Of<'readNodes'>): Promise<void> {
  const hashes = chosen(world, nodes).map(({ hash }) => hash);
  const model = world.model(space);
  const readable = findReadable(model, hashes);
  const pieces = await Array.fromAsync(readNodes(world.core, world.space(space), hashes, acceptsZstd));
  const records = takeApart(Buffer.concat(pieces.flat()));
  expect(records.map(({ hash }) => hash)).toEqual([...readable]);
  for (const { hash, codec, stored, canonicalLength } of records) {
    if (!acceptsZstd) expect(codec).toBe(0);
    const canonical = codec === 0 ? stored : Bun.zstdDecompressSync(stored);
    expect(canonicalLength).toBe(canonical.length);
    expect(Buffer.compare(canonical, getPoolNode(hash).bytes)).toBe(0);
    world.see(`reads: codec ${codec}`);
  }
  for (const hash of hashes) {
    const row = model.nodes.get(hash);
    if (row?.state !== 'ready' || row.bytes === 'good') continue;
    world.see('reads: damage noticed');
    row.state = 'rotten';
  }
}

/** Nothing that can be seen changes, also where it ends halfway. */
async function compact(world: World, crashes: boolean): Promise<void> {
  const core = crashes ? beforeTransactions(world.core, moveLive, crash) : world.core;
  const stuck = new Set<string>();
  try {
    for (let steps = 0; ; steps += 1) {
      expect(steps).toBeLessThan(COMPACTIONS_MAX);
      const { bytes, moved } = await compactPacks(core, stuck);
      if (moved > 0) world.see('compaction: moved');
      if (bytes === 0) return;
    }
  } catch (error) {
    if (!(error instanceof PlantedCrash)) throw error;
    world.see('compaction: crashed');
  }
}

/** The same: every small node that has an object of its own moves, however young. */
async function packSmall(world: World, crashes: boolean): Promise<void> {
  const core = crashes ? beforeTransactions(world.core, moveSmall, crash) : world.core;
  let walk: PackingWalk | undefined;
  try {
    for (let steps = 0; ; steps += 1) {
      expect(steps).toBeLessThan(COMPACTIONS_MAX);
      const { moved, next } = await packSmallNodes(core, walk, { nodesMin: 1, ageMs: 0 });
      if (moved > 0) world.see('packing: moved');
      if (next === undefined) return;
      walk = next;
    }
  } catch (error) {
    if (!(error instanceof PlantedCrash)) throw error;
    world.see('packing: crashed');
  }
}
