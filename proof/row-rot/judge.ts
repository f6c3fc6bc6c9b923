/** What a damaged deployment answers, against what is true of it, before and after everything that may delete. */
import { ApiError } from '@holdfast/protocol';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { scrub } from '../../packages/server/core/collect/scrub.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { compactPacks } from '../../packages/server/core/packs/compact-packs.ts';
import { packSmallNodes } from '../../packages/server/core/packs/pack-small-nodes.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { StoreUnavailable } from '../../packages/server/core/store-failure.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import type { KnownDeployment, KnownNode } from './deployment.ts';
import type { DamagedCopy } from './subject.ts';
import { CALLER, DAY_MS, HOUR_MS, type OpenWorld, OTHER, SPACE, upload, type World } from './world.ts';

const STEPS_MAX = 50;
/** so that a list has several pages */
const ROOT_REFS_AT_ONCE = 2;
const NODES_PER_GC = 1000;
const SERVICE_UNAVAILABLE = 503;

export interface Verdict {
  /** one line for each thing that must not be; empty: the property holds */
  readonly wrong: readonly string[];
  /** a check before any repair named something */
  readonly isSeen: boolean;
  /** after the repair everything held can be read */
  readonly isWholeAgain: boolean;
}

/** what a server says that does not start, or a check that cannot be made */
const REMEDY = /restore a backup of the folder/;

type Status = number;

/** Runs everything on it, and leaves it. */
export async function judge(copy: DamagedCopy, whole: KnownDeployment): Promise<Verdict> {
  const { open, mayRefuse = false, former, refusal, purged } = copy;
  const known = {
    ...whole,
    nodes: whole.nodes.map((node) => ({ ...node, isHeld: node.isHeld && node.space !== purged })),
  };
  const wrong: string[] = [];
  let world: World;
  try {
    world = await open(known.now, 2);
  } catch (error) {
    const isRight = mayRefuse && REMEDY.test(String(error));
    if (!isRight) wrong.push(`the server does not start: ${String(error)}`);
    return { wrong, isSeen: true, isWholeAgain: false };
  }
  let isSeen = false;
  let isWholeAgain = true;
  try {
    const found = await readAll(world, known, wrong, 'at first');
    const before = former === undefined ? found : await readFormer(former, known);
    lookForLoss(found, known, { before, wrong, when: 'at first', mayFail: copy.mayFail === true });
    if (refusal !== undefined) return { wrong, isSeen: true, isWholeAgain: true };
    const ofLedger = copy.isUnproven === true ? [] : wrong;
    await readRootRefs(world, known, ofLedger, copy.raisesRevisions === true);
    isSeen = (await check(world, false)) > 0;
    copy.begin?.();
    await everything(world, wrong);
    const mayFail = copy.begin !== undefined || copy.mayFail === true;
    const mayHide = mayFail || copy.mayHide === true;
    await compare(world, known, { before, wrong, when: 'after collection and sweep', mayFail: mayHide });
    await check(world, true);
    world.clock.now += 3 * HOUR_MS;
    await everything(world, wrong);
    const after = await compare(world, known, {
      before,
      wrong,
      when: 'after repair and collection',
      mayFail,
    });
    await repeatCommits(world, known, ofLedger);
    isWholeAgain = known.nodes.every((node) => !node.isHeld || after.get(node.hash) === 200);
    if (!isWholeAgain) await healAll(world, known, after, wrong);
  } catch (error) {
    const isRight = mayRefuse && REMEDY.test(String(error));
    if (isRight) isSeen = true;
    else wrong.push(`it fails: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  } finally {
    wrong.push(...world.fatal.map((error) => `the process would end: ${error.message}`));
    await world.close().catch((error: unknown) => wrong.push(`it does not close: ${String(error)}`));
  }
  return { wrong, isSeen, isWholeAgain };
}

interface Comparison {
  readonly before: ReadonlyMap<string, Status>;
  readonly wrong: string[];
  readonly when: string;
  readonly mayFail?: boolean;
}

async function readFormer(open: OpenWorld, known: KnownDeployment): Promise<ReadonlyMap<string, Status>> {
  const world = await open(known.now, 2);
  try {
    return await readAll(world, known, [], 'before');
  } finally {
    await world.close();
  }
}

async function compare(
  world: World,
  known: KnownDeployment,
  comparison: Comparison,
): Promise<ReadonlyMap<string, Status>> {
  const after = await readAll(world, known, comparison.wrong, comparison.when);
  lookForLoss(after, known, comparison);
  return after;
}

function lookForLoss(
  after: ReadonlyMap<string, Status>,
  known: KnownDeployment,
  { before, wrong, when, mayFail = false }: Comparison,
): void {
  for (const { hash, isHeld } of known.nodes) {
    const [was, is] = [before.get(hash), after.get(hash)];
    if (isHeld && was === 200 && is !== 200 && !(mayFail && is === SERVICE_UNAVAILABLE))
      wrong.push(`${when}: the held node ${hash} answers ${is}, and answered 200`);
    // Absence, where it was damage, is a loss.
    else if (isHeld && was === SERVICE_UNAVAILABLE && is === 404)
      wrong.push(`${when}: the held node ${hash} is gone`);
  }
}

async function readAll(
  world: World,
  { nodes }: KnownDeployment,
  wrong: string[],
  when: string,
): Promise<ReadonlyMap<string, Status>> {
  const statuses = new Map<string, Status>();
  for (const node of nodes) statuses.set(node.hash, await readNode(world, node, wrong, when));
  return statuses;
}

async function readNode(world: World, node: KnownNode, wrong: string[], when: string): Promise<Status> {
  const { hash, space } = node;
  const metadata = await statusOf(async () => {
    const { metadata: found } = await readMetadata(world.core, space, hash);
    const isRight =
      found.size === node.content.length &&
      found.contentType === node.contentType &&
      found.refs.join() === node.refs.join();
    if (!isRight) wrong.push(`${when}: the metadata of ${hash} is wrong`);
  });
  const content = await statusOf(async () => {
    const { body, contentType } = await readContent(world.core, space, hash, undefined, CALLER);
    const bytes = body instanceof Uint8Array ? body : new Uint8Array(await body.arrayBuffer());
    const isRight = Buffer.compare(bytes, node.content) === 0 && contentType === node.contentType;
    if (!isRight) wrong.push(`${when}: the content of ${hash} is wrong`);
  });
  for (const [what, status] of [
    ['metadata', metadata],
    ['content', content],
  ] as const) {
    if (status === 500) wrong.push(`${when}: the ${what} of ${hash} answers 500`);
  }
  return Math.max(metadata, content);
}

/** 200, or what the failure answers; 500 for what nobody expects. */
async function statusOf(work: () => Promise<unknown>): Promise<Status> {
  try {
    await work();
    return 200;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    return error instanceof StoreUnavailable ? SERVICE_UNAVAILABLE : 500;
  }
}

async function readRootRefs(
  world: World,
  { domains }: KnownDeployment,
  wrong: string[],
  areRaised: boolean,
): Promise<void> {
  for (const [domain, { revision, balances }] of domains) {
    await statusOf(async () => {
      const found = new Map<string, number>();
      let [cursor, at]: [string | undefined, number | undefined] = [undefined, undefined];
      do {
        const page = await listRootRefs(world.core, SPACE, domain, { limit: ROOT_REFS_AT_ONCE, cursor });
        for (const { hash, refCount } of page.items) found.set(hash, refCount);
        at ??= page.revision;
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      const isRight =
        (areRaised ? Number(at) >= revision : at === revision) &&
        found.size === balances.size &&
        [...balances].every(([hash, balance]) => found.get(hash) === balance);
      if (!isRight) wrong.push(`the root refs of ${domain} are wrong`);
    });
  }
}

/** A commit that was made answers as it did, or fails; it is never made again. */
async function repeatCommits(world: World, { commits }: KnownDeployment, wrong: string[]): Promise<void> {
  for (const { domain, requestId, changes, revision } of commits) {
    const status = await statusOf(async () => {
      const again = await updateRootRefs(world.core, SPACE, domain, { requestId, changes });
      if (again.revision !== revision) wrong.push(`${requestId} of ${domain} was made again`);
    });
    if (status !== 200 && status !== SERVICE_UNAVAILABLE)
      wrong.push(`${requestId} of ${domain} answers ${status}`);
  }
}

/** All that deletes or moves, as often as there is something to do. A Space with damage may answer 503. */
async function everything(world: World, wrong: string[]): Promise<void> {
  const { core } = world;
  const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['scrub', () => scrubAll(world)],
    ...[SPACE, OTHER].map((space: Space) => [`gc`, () => runGc(core, space, NODES_PER_GC)] as const),
    ['sweep', () => untilDone(async () => (await sweep(core)).moreToDo)],
    ['packing', () => packSmallNodes(core)],
    ['compaction', () => compactPacks(core, new Set())],
    ['sweep', () => untilDone(async () => (await sweep(core)).moreToDo)],
  ];
  for (const [name, step] of steps) {
    if ((await statusOf(step)) === 500) wrong.push(`${name} fails in a way that nobody expects`);
  }
}

async function untilDone(step: () => Promise<boolean>): Promise<void> {
  for (let steps = 0; (await step()) && steps < STEPS_MAX; steps += 1);
}

async function scrubAll({ core }: World): Promise<void> {
  let after: Parameters<typeof scrub>[1];
  for (let steps = 0; steps < STEPS_MAX; steps += 1) {
    const { next } = await scrub(core, after);
    if (next === undefined) return;
    after = next;
  }
}

async function check({ core }: World, isRepaired: boolean): Promise<number> {
  const { findings } = await checkDeployment(core, {
    ...{ isRepaired, rehashPercent: 100, signal: new AbortController().signal, report: () => undefined },
  });
  return findings.length;
}

/** What is damaged still takes the bytes of its node again, or says 503. */
async function healAll(
  world: World,
  { nodes }: KnownDeployment,
  after: ReadonlyMap<string, Status>,
  wrong: string[],
): Promise<void> {
  for (const node of nodes) {
    if (!node.isHeld || after.get(node.hash) === 200) continue;
    let isReady = false;
    const status = await statusOf(async () => {
      isReady = (await upload(world, node, DAY_MS, node.space)).state === 'ready';
    });
    if (status === 500) wrong.push(`the upload of ${node.hash} again fails in a way that nobody expects`);
    if (isReady && (await readNode(world, node, wrong, 'after healing')) === 404)
      wrong.push(`the node ${node.hash} is ready, and absent`);
  }
}
