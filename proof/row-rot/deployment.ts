/** A small deployment with a row of every kind, and what is true of it. */
import type { Hash } from '@holdfast/protocol';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { type CanonicalNode, makeNode } from '../../test/support/canonical-node.ts';
import {
  BEGIN_MS,
  DAY_MS,
  MINUTE_MS,
  type OpenWorld,
  OTHER,
  put,
  SPACE,
  upload,
  uploadPack,
  type World,
} from './world.ts';

/** more than is kept as a row */
const OBJECT_BYTES = 40_000;
const SWEEPS_MAX = 100;

export interface KnownNode extends CanonicalNode {
  readonly space: Space;
  /** a root ref, a lease or a parent keeps it */
  readonly isHeld: boolean;
}

interface KnownCommit {
  readonly domain: string;
  readonly requestId: string;
  readonly changes: readonly { readonly hash: Hash; readonly delta: number }[];
  readonly revision: number;
}

export interface KnownDeployment {
  /** ready ones */
  readonly nodes: readonly KnownNode[];
  readonly commits: readonly KnownCommit[];
  /** of `SPACE`, by domain: revision, and balances by hash */
  readonly domains: ReadonlyMap<
    string,
    { readonly revision: number; readonly balances: ReadonlyMap<Hash, number> }
  >;
  /** ms; when it was left */
  readonly now: number;
}

const text = (name: string, refs: readonly Hash[] = []): CanonicalNode =>
  makeNode(`node ${name} ${'x'.repeat(name.length)}`, { contentType: 'text/plain', refs });

function object(seed: number, refs: readonly Hash[] = []): CanonicalNode {
  const content = Uint8Array.from(
    { length: OBJECT_BYTES },
    (_, at) => (at * 7 + seed * 31 + (at >> 8)) & 0xff,
  );
  return makeNode(content, { refs });
}

function makeNodes() {
  const [child, childObject, packedChild] = [text('child'), object(1), text('packed child')];
  const grandchild = text('grandchild');
  return {
    ...{ child, childObject, packedChild, grandchild },
    middle: text('middle', [grandchild.hash]),
    parent: text('parent', [child.hash, childObject.hash, child.hash]),
    packedParent: text('packed parent', [packedChild.hash]),
    ...{ rooted: text('rooted'), rootedObject: object(2), leased: text('leased'), leasedObject: object(3) },
    ...{
      packedRooted: text('packed rooted'),
      packedFree: text('packed free'),
      packedLeased: text('packed leased'),
    },
    ...{ free: text('free'), freeObject: object(4), elsewhere: text('elsewhere') },
    ...{ waiting: text('waiting', [text('never').hash]), open: text('open'), finished: object(5) },
  };
}

type Nodes = ReturnType<typeof makeNodes>;

export async function makeDeployment(open: OpenWorld): Promise<KnownDeployment> {
  const world = await open(BEGIN_MS, 1);
  const nodes = makeNodes();
  try {
    await storeNodes(world, nodes);
    const commits = await commitAll(world, nodes);
    await endLeases(world, nodes);
    await leaveUnfinished(world, nodes);
    return { ...describe(nodes), commits, domains: domainsOf(commits), now: world.clock.now };
  } finally {
    await world.close();
  }
}

async function storeNodes(world: World, nodes: Nodes): Promise<void> {
  const { child, childObject, grandchild, middle, parent, rooted, rootedObject, leased, leasedObject } =
    nodes;
  for (const node of [child, childObject, grandchild, middle, parent, rooted, rootedObject])
    await upload(world, node);
  for (const node of [leased, leasedObject]) await upload(world, node, DAY_MS);
  const { packedChild, packedParent, packedRooted, packedFree, packedLeased } = nodes;
  await uploadPack(world, [packedChild, packedParent, packedRooted, packedFree, packedLeased]);
  await upload(world, packedLeased, DAY_MS);
  await upload(world, nodes.elsewhere, MINUTE_MS, OTHER);
}

async function commitAll(world: World, nodes: Nodes): Promise<KnownCommit[]> {
  const { parent, middle, packedParent, rooted, rootedObject, packedRooted } = nodes;
  const commits: KnownCommit[] = [];
  const commit = async (
    domain: string,
    changes: readonly (readonly [CanonicalNode, number])[],
  ): Promise<void> => {
    const requestId = `request-${commits.length}`;
    const sorted = changes
      .map(([{ hash }, delta]) => ({ hash, delta }))
      .sort((left, right) => (left.hash < right.hash ? -1 : 1));
    const { revision } = await updateRootRefs(world.core, SPACE, domain, { requestId, changes: sorted });
    commits.push({ domain, requestId, changes: sorted, revision });
    world.clock.now += 1;
  };
  await commit('main', [
    [parent, 1],
    [middle, 1],
    [rooted, 3],
  ]);
  // Of a walk that has begun, so that the next commit keeps history.
  await listRootRefs(world.core, SPACE, 'main', { limit: 1 });
  await commit('main', [
    [packedParent, 1],
    [rootedObject, 2],
    [rooted, -1],
  ]);
  await commit('side', [
    [packedRooted, 1],
    [rooted, 1],
  ]);
  await commit('side', [[packedRooted, 4]]);
  const changes = [{ hash: nodes.elsewhere.hash, delta: 1 }];
  await updateRootRefs(world.core, OTHER, 'main', { requestId: 'elsewhere', changes });
  return commits;
}

/** Leases of nodes that something else keeps have ended. One record of the pack dies, and packs are judged for good. */
async function endLeases(world: World, nodes: Nodes): Promise<void> {
  world.clock.now += 3 * MINUTE_MS;
  await runGc(world.core, SPACE, 100);
  for (let steps = 0; (await sweep(world.core)).moreToDo && steps < SWEEPS_MAX; steps += 1);
  for (const node of [nodes.free, nodes.freeObject]) await upload(world, node);
  world.clock.now += 2 * MINUTE_MS;
}

async function leaveUnfinished(world: World, nodes: Nodes): Promise<void> {
  await upload(world, nodes.waiting);
  await put(world, nodes.finished);
  // A lease alone opens an upload.
  const { core } = world;
  await core.metadata.transact(SPACE, (tx) =>
    tx.insert('discard', { generation: 'ee'.repeat(16), dueAt: tx.now + 300 * DAY_MS, urlExpiresAt: 0 }),
  );
  await uploadPack(world, [text('in an open pack')], { isLeased: false });
  await core.metadata.settle('tombstones', {
    ...{ unknown: ['dd'.repeat(16)], known: [], now: world.clock.now, seenSince: 0 },
  });
}

function describe(nodes: Nodes): Pick<KnownDeployment, 'nodes'> {
  const {
    waiting: _waiting,
    open: _open,
    finished: _finished,
    packedFree: _gone,
    free,
    freeObject,
    ...held
  } = nodes;
  const known = Object.entries(held).map(([name, node]) => {
    return { ...node, space: name === 'elsewhere' ? OTHER : SPACE, isHeld: true };
  });
  const leaving = [free, freeObject].map((node) => ({ ...node, space: SPACE, isHeld: false }));
  return { nodes: [...known, ...leaving] };
}

function domainsOf(commits: readonly KnownCommit[]): KnownDeployment['domains'] {
  const domains = new Map<string, { revision: number; balances: Map<Hash, number> }>();
  for (const { domain, changes, revision } of commits) {
    const known = domains.get(domain) ?? { revision: 0, balances: new Map<Hash, number>() };
    for (const { hash, delta } of changes) known.balances.set(hash, (known.balances.get(hash) ?? 0) + delta);
    domains.set(domain, { ...known, revision });
  }
  return domains;
}
