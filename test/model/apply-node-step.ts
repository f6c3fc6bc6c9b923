/** Reads, rot, collection and time on the real engine, each answer judged by the model. */
import { expect } from 'bun:test';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { scrub } from '../../packages/server/core/collect/scrub.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { ContentAnswer } from '../../packages/server/core/read/read-content.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { CALLER } from '../../packages/server/core/test/core-fixture.ts';
import { endPut, lease, leaseTogether, makeBody, put } from './apply-upload-step.ts';
import { getPoolNode, type PoolNode } from './node-pool.ts';
import type { ModelNode } from './reference-rules.ts';
import type { NodeStep, RangeKind, WorldStep } from './steps.ts';
import { type Answer, at, type World } from './world.ts';

const DAY_MS = 86_400_000;
/** A stray is a day old before it gets a tombstone, and goes a week after; a walk comes by every other day. */
const DAYS_TO_OUTLIVE = 12;
const BACKGROUND_STEPS_MAX = 1000;

export async function applyNodeStep(world: World, step: NodeStep): Promise<void> {
  if (step.do === 'gc') return collect(world, step.space, step.maxNodes, step.failAfter);
  const node = at(world.focus, step.node);
  switch (step.do) {
    case 'lease':
      return lease(world, step.space, node, step.durationMs);
    case 'leaseTogether':
      return leaseTogether(world, step.space, node, step.durationsMs);
    case 'upload':
      return upload(world, step.space, node, step.durationMs);
    case 'read':
      return read(world, step.space, node, step.range);
    case 'damage':
      return damage(world, step.space, node, step.how);
    case 'mend':
      return mend(world, step.space, node);
  }
}

/** The way of a well-behaved client: lease, PUT, lease. */
async function upload(world: World, space: number, node: PoolNode, durationMs: number): Promise<void> {
  const known = world.urls.length;
  await lease(world, space, node, durationMs);
  const url = world.urls[known];
  if (url === undefined) return;
  await put(world, url, makeBody(node, 'good'), 'right', true);
  await lease(world, space, node, durationMs);
}

type ReadOutcome = Answer<{ readonly answer: ContentAnswer; readonly bytes: Uint8Array }>;

async function read(world: World, space: number, node: PoolNode, range: RangeKind): Promise<void> {
  const outcome: ReadOutcome = await world.ask(async () => {
    const answer = await readContent(world.core, world.space(space), node.hash, formatRange(range), CALLER);
    return { answer, bytes: await new Response(answer.body as BodyInit).bytes() };
  });
  const row = world.model(space).nodes.get(node.hash);
  if (row === undefined || row.state === 'waiting' || row.state === 'claimed') {
    expect(outcome).toMatchObject({ error: 'NOT_FOUND', status: 404 });
  } else if (row.state === 'rotten') {
    expect(outcome).toMatchObject({ error: 'SERVICE_UNAVAILABLE', status: 503 });
  } else judgeReadyRead(world, row, node, range, outcome);
}

function judgeReadyRead(
  world: World,
  row: ModelNode,
  node: PoolNode,
  range: RangeKind,
  outcome: ReadOutcome,
): void {
  const size = node.content.length;
  const selected = selectRange(range, size);
  if (selected === undefined) {
    expect(outcome).toMatchObject({ error: 'INVALID_REQUEST', status: 416 });
    return;
  }
  if (row.bytes !== 'good') {
    const isNoticed = 'error' in outcome && outcome.status === 503;
    // A range that does not touch the damage may be served; anything that does must not look complete.
    const mustNotice = row.bytes === 'lost' || selected.end === size;
    world.see(isNoticed ? 'read: damage noticed' : 'read: damage not touched');
    if (isNoticed) row.state = 'rotten';
    else if (mustNotice) expect(outcome).toMatchObject({ error: 'SERVICE_UNAVAILABLE', status: 503 });
    if (isNoticed) return;
  }
  if ('error' in outcome) throw new Error(`expected content, got ${outcome.status} ${outcome.message}`);
  const { status, contentType, start, end } = outcome.ok.answer;
  expect({ status, contentType, size: outcome.ok.answer.size, start, end }).toEqual({
    status: range.kind === 'none' ? 200 : 206,
    contentType: node.contentType,
    size,
    ...selected,
  });
  const expected = node.content.subarray(selected.start, selected.end);
  expect(Buffer.compare(expected, outcome.ok.bytes)).toBe(0);
}

function formatRange(range: RangeKind): string | undefined {
  switch (range.kind) {
    case 'none':
      return undefined;
    case 'bounded':
      return `bytes=${range.start}-${range.start + range.length}`;
    case 'open':
      return `bytes=${range.start}-`;
    case 'suffix':
      return `bytes=-${range.count}`;
    case 'bad':
      return range.text;
  }
}

/** As docs/api.md, readContent, has it; undefined = 416. */
function selectRange(range: RangeKind, size: number): { start: number; end: number } | undefined {
  switch (range.kind) {
    case 'none':
      return { start: 0, end: size };
    case 'bounded':
      if (range.start >= size) return undefined;
      return { start: range.start, end: Math.min(range.start + range.length + 1, size) };
    case 'open':
      return range.start >= size ? undefined : { start: range.start, end: size };
    case 'suffix':
      if (range.count === 0 || size === 0) return undefined;
      return { start: Math.max(0, size - range.count), end: size };
    case 'bad':
      return undefined;
  }
}

async function damage(world: World, space: number, node: PoolNode, how: 'flipped' | 'lost'): Promise<void> {
  const row = world.model(space).nodes.get(node.hash);
  // The last canonical byte of an empty node is not content: serving nothing is right whatever became of it.
  if (row?.bytes !== 'good' || row.state === 'claimed' || row.state === 'waiting') return;
  if (node.content.length === 0) return;
  const packed = await findPlace(world, space, node);
  // There any change of a pack is one of all its records: its tag is another.
  if (packed !== undefined && world.engine.direct !== undefined) return;
  // One record of a pack is spoilt; its neighbours stay as they are.
  const spoilt = packed === undefined ? how : 'flipped';
  await world.engine.damage(world.space(space), await getRow(world, space, node), spoilt, packed);
  row.bytes = spoilt;
}

async function mend(world: World, space: number, node: PoolNode): Promise<void> {
  const row = world.model(space).nodes.get(node.hash);
  if (row === undefined || row.bytes === 'good' || row.state === 'claimed') return;
  const packed = await findPlace(world, space, node);
  await world.engine.mend(world.space(space), await getRow(world, space, node), packed);
  row.bytes = 'good';
}

async function findPlace(world: World, space: number, { hash }: PoolNode) {
  return (await world.core.metadata.findNodesWithContent(world.space(space), [hash]))[0]?.content?.packed;
}

async function getRow(world: World, space: number, node: PoolNode) {
  const row = await world.core.metadata.findNode(world.space(space), node.hash);
  if (row === undefined) throw new Error(`${node.name} has no row though the model has one`);
  return row;
}

/** `failAfter`: the number of content deletes that succeed before the store fails. */
async function collect(
  world: World,
  space: number,
  maxNodes: number,
  failAfter: number | undefined,
): Promise<void> {
  const model = world.model(space);
  const before = [...model.nodes.values()].map((node) => ({ ...node }));
  const eligible = before.filter((node) => model.isEligible(world.now, node));
  world.deletesLeft = failAfter;
  const answer = await world.ask(() => runGc(world.core, world.space(space), maxNodes));
  world.deletesLeft = undefined;
  const { gone, claimed } = await findTaken(world, space, before);
  expect(model.collect(world.now, gone)).toEqual([]);
  for (const hash of claimed) {
    const node = model.nodes.get(hash);
    if (node === undefined) throw new Error('a claimed row is a row');
    expect(model.isEligible(world.now, node)).toBe(true);
    node.state = 'claimed';
  }
  for (const { hash } of before) {
    if (model.rootRefs.isHeld(hash) && model.rootRefs.aggregate(hash) === 0)
      world.see('gc: spared a balanced node');
  }
  if ('error' in answer) {
    expect(answer).toMatchObject({ error: 'SERVICE_UNAVAILABLE', status: 503 });
    expect(failAfter).toBeDefined();
    expect(claimed.size).toBeGreaterThan(0);
    world.see('gc: store failed');
    return;
  }
  const reclaimedContentBytes = [...gone].reduce((sum, hash) => sum + getPoolNode(hash).content.length, 0);
  expect(answer.ok).toEqual({ examined: gone.size, deleted: gone.size, reclaimedContentBytes });
  if (eligible.some(({ state, hash }) => state === 'claimed' && gone.has(hash)))
    world.see('gc: finished a claim');
  if ([...gone].some((hash) => !eligible.some((node) => node.hash === hash)))
    world.see('gc: took a freed child');
  if (gone.size > 0) world.see(gone.size === maxNodes ? 'gc: met its bound' : 'gc: took all');
  expect(gone.size).toBeLessThanOrEqual(maxNodes);
  // A node that is claimed now was left by an earlier pass, and by the bound of this one.
  const leftBefore = before.filter(({ state }) => state === 'claimed').map(({ hash }) => hash);
  expect([...claimed].filter((hash) => !leftBefore.includes(hash))).toEqual([]);
  if (gone.size < maxNodes) expect(model.findEligible(world.now)).toEqual([]);
  expectOldestFirst(eligible, gone);
}

/** The rows that a pass deleted, and those it left claimed. */
async function findTaken(world: World, space: number, before: readonly ModelNode[]) {
  const gone = new Set<string>();
  const claimed = new Set<string>();
  for (const { hash } of before) {
    const row = await world.core.metadata.findNode(world.space(space), hash);
    if (row === undefined) gone.add(hash);
    else if (row.state === 'claimed') claimed.add(hash);
  }
  return { gone, claimed };
}

/** No candidate that the pass left has an older lease than one that it took. */
function expectOldestFirst(eligible: readonly ModelNode[], gone: ReadonlySet<string>): void {
  const age = ({ state, leaseExpiresAt }: ModelNode): number => (state === 'claimed' ? -1 : leaseExpiresAt);
  const taken = eligible.filter(({ hash }) => gone.has(hash)).map(age);
  const left = eligible.filter(({ hash }) => !gone.has(hash)).map(age);
  expect(Math.max(-1, ...taken)).toBeLessThanOrEqual(Math.min(Number.MAX_SAFE_INTEGER, ...left));
}

export async function applyWorldStep(world: World, step: WorldStep): Promise<void> {
  switch (step.do) {
    case 'advance':
      return advance(world, world.now + step.ms);
    case 'advanceToExpiry': {
      const expiresAt =
        world.model(step.space).nodes.get(at(world.focus, step.node).hash)?.leaseExpiresAt ?? 0;
      return advance(world, Math.max(world.now, expiresAt + step.off));
    }
    case 'sweep':
      return sweepAll(world);
    case 'scrub':
      return scrubAll(world);
    case 'restart':
      await endAllPuts(world);
      await world.close();
      return world.open();
  }
}

/**
 * Whether a lease still finds what the 24 h rule may drop depends on when the sweep last ran, so a jump that long is
 * followed by one.
 */
async function advance(world: World, now: number): Promise<void> {
  const isLong = now - world.now >= DAY_MS;
  world.now = now;
  const isStale = world.models.some((model) => model.hasAbandoned(now));
  if (isLong || isStale) await sweepAll(world);
}

async function sweepAll(world: World): Promise<void> {
  await endAllPuts(world);
  let steps = 0;
  while ((await sweep(world.core)).moreToDo) {
    steps += 1;
    expect(steps).toBeLessThan(BACKGROUND_STEPS_MAX);
  }
  for (const model of world.models) {
    const { nodes, uploads, packs } = model.sweep(world.now);
    if (packs > 0) world.see('sweep: ended a pack');
    for (const state of nodes) world.see(`sweep: dropped ${state}`);
    if (uploads > 0) world.see('sweep: dropped an upload');
  }
}

async function scrubAll(world: World): Promise<void> {
  let position: Parameters<typeof scrub>[1];
  for (let steps = 0; steps < BACKGROUND_STEPS_MAX; steps += 1) {
    position = (await scrub(world.core, position)).next;
    if (position === undefined) break;
  }
  expect(position).toBeUndefined();
  for (const [space, model] of world.models.entries()) {
    const before = new Map([...model.nodes].map(([hash, { state }]) => [hash, state]));
    model.scrub();
    for (const [hash, { state }] of model.nodes)
      if (before.get(hash) !== state) world.see(`scrub: made ${state}`);
    for (const hash of model.uploads.keys()) {
      // A node that is good again asks for no upload; whether its open generation is kept to the end is not fixed.
      if (model.nodes.get(hash)?.state !== 'ready') continue;
      const kept = await world.core.metadata.findUpload(world.space(space), hash);
      if (kept === undefined) model.uploads.delete(hash);
    }
  }
}

/**
 * The end of a run: some days later, each with a sweep, nothing of it is under way and the store holds nothing that belongs
 * to nobody.
 */
export async function outliveAll(world: World): Promise<void> {
  await endAllPuts(world);
  if (world.engine.direct === undefined) return;
  for (let day = 0; day < DAYS_TO_OUTLIVE; day += 1) await advance(world, world.now + DAY_MS + 1);
  await world.audit();
  await world.auditStore();
}

async function endAllPuts(world: World): Promise<void> {
  while (world.openPuts.length > 0) await endPut(world, 0, 'abort');
}
