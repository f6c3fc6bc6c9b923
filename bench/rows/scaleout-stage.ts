/** Shared by the rows of the scale-out engine: engines, a deployment with nodes in it, peers over the same engines. */
import { encodeRecord, ROOT_REF_CHANGES_MAX } from '@holdfast/protocol';
import type { Bench, RowResult } from '../bench.ts';
import { call, type EnteredSpace, type Holdfast, putNodes } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import type { RequestTemplate } from '../load/spec.ts';
import { hashOfNode, type PgbenchLoad, preparePgbench } from '../peers/pgbench.ts';
import {
  largeCommitScripts,
  type PgbenchScript,
  READ_SCRIPT,
  RENEWAL_SCRIPT,
  smallCommitScripts,
} from '../peers/pgbench-scripts.ts';
import { listStoredObjects, type StoredObject } from '../peers/s3-objects.ts';
import { type Deployment, type Engines, makeDeployment, startScaleoutHoldfast } from '../scaleout.ts';
import { LARGE_CONTENT_BYTES, LARGE_NODES, putLargeNodes, SMALL_CONTENT_BYTES } from './node-sets.ts';
import { countTrips, type OperationTrips } from './scaleout-trips.ts';
import { sendPack } from './send-pack.ts';

/** Commits of one domain come one after another, so several Spaces are what an installation of some size sees. */
export const SPACES = 8;
/** As many as one commit may change. */
const NODES_PER_SPACE = ROOT_REF_CHANGES_MAX;
/** Rows of single nodes draw from this many of a Space, on our side as on the peers'. */
const NODES_DRAWN = 100;
const QUICK_NODES = 8;
/** Connections for work that takes long: 64 answers of 8 MiB, or commits of 1000, at once would measure the queue. */
export const HEAVY_CONNECTIONS = 16;

export interface Stage {
  readonly bench: Bench;
  readonly engines: Engines;
  readonly deployment: Deployment;
  /** by what ours is compared with them */
  readonly peers: Readonly<Record<'reads' | 'renewals' | 'smallCommits' | 'largeCommits', PgbenchLoad>>;
  /** of each Space, in order */
  readonly hashes: readonly (readonly string[])[];
  /** of the first Space */
  readonly large: readonly string[];
  /** the objects of the nodes that are drawn */
  readonly smallObjects: readonly StoredObject[];
  /** the objects of `large` */
  readonly largeObjects: readonly StoredObject[];
  /** of one commit that changes many */
  readonly commitNodes: number;
  readonly trips: ReadonlyMap<string, OperationTrips>;
}

/** The name of a result, and what measures it. */
export type MeasuredRow = readonly [string, () => Promise<RowResult>];

const SPACE_NAMES = Array.from({ length: SPACES }, (_, index) => `space-${index}`);

export async function openStage(bench: Bench, engines: Engines): Promise<Stage> {
  const deployment = await makeDeployment(engines);
  const commitNodes = bench.quick ? QUICK_NODES : NODES_PER_SPACE;
  bench.progress(`putting ${SPACES} × ${commitNodes} nodes …`);
  const first = await startServers(bench, deployment, 1);
  let hashes: string[][];
  let large: string[];
  try {
    hashes = await Promise.all(first.spaces.map((space) => putHeldNodes(space, commitNodes)));
    large = await putLargeNodes(first, 'scaleout', bench.quick ? 1 : LARGE_NODES);
  } finally {
    await first.close();
  }
  const objects = await listStoredObjects(deployment.bucket);
  // Packs lie between the two.
  const smallObjects = objects.filter(({ bytes }) => bytes < 2 * SMALL_CONTENT_BYTES);
  const largeObjects = objects.filter(({ bytes }) => bytes >= LARGE_CONTENT_BYTES);
  if (smallObjects.length !== SPACES * drawnOf(commitNodes) || largeObjects.length !== large.length)
    throw new Error('The bucket does not hold the objects that were put, one for each node.');
  bench.progress('counting round trips …');
  const trips = await countTrips(deployment, { spaceId: SPACE_NAMES[0] as string, hashes: hashes[0] ?? [] });
  bench.record(`${JSON.stringify([...trips])}\n`);
  bench.progress('trying what suits pgbench best …');
  const peers = await choosePeers(bench, engines, trips, commitNodes);
  return { bench, engines, deployment, peers, hashes, large, smallObjects, largeObjects, commitNodes, trips };
}

function drawnOf(count: number): number {
  return Math.min(NODES_DRAWN, count);
}

/**
 * Each is held by a root ref, so that later commits find a balance to change. Those that nobody draws are there for commits alone, and
 * come in a pack: one by one, all took minutes.
 */
async function putHeldNodes(space: EnteredSpace, count: number): Promise<string[]> {
  const next = createNodeSource(SMALL_CONTENT_BYTES, space.spacePath);
  const hashes = await putNodes(space, next, drawnOf(count));
  const records = Array.from({ length: count - hashes.length }, () => {
    const { hash, bytes } = next();
    return encodeRecord(hash, bytes.slice());
  });
  if (records.length > 0 && (await sendPack(space, records)) !== records.length)
    throw new Error('Not all nodes of a pack became ready.');
  hashes.push(...records.map(({ hash }) => hash));
  const changes = Object.fromEntries(hashes.map((hash) => [hash, 1]));
  await call(space, 'POST', '/root-refs', { requestId: 'first', changes });
  return hashes;
}

async function choosePeers(
  bench: Bench,
  { postgres }: Engines,
  trips: Stage['trips'],
  commitNodes: number,
): Promise<Stage['peers']> {
  const sizes = { spaces: SPACES, nodes: commitNodes, drawn: drawnOf(commitNodes) };
  const peer = await preparePgbench(bench, await postgres.createDatabase(), sizes);
  const all = Array.from({ length: commitNodes }, (_, index) => hashOfNode(index + 1));
  const choose = (
    operation: string,
    scripts: readonly PgbenchScript[],
    connections = bench.connections,
  ): Promise<PgbenchLoad> => {
    for (const { statements } of scripts) assertSameStatements(operation, trips, statements);
    return peer.choose(scripts, connections);
  };
  return {
    reads: await choose('readMetadata', [READ_SCRIPT]),
    renewals: await choose('lease of a ready node', [RENEWAL_SCRIPT]),
    smallCommits: await choose('commit of 1', smallCommitScripts()),
    largeCommits: await choose(`commit of ${commitNodes}`, largeCommitScripts(all), HEAVY_CONNECTIONS),
  };
}

/** The statement that a script leaves out: it does not use the database's time. */
const NOT_IN_SCRIPTS: ReadonlySet<string> = new Set(['readNow']);

/** Throws where the server has come to send something else than the peer does. */
function assertSameStatements(operation: string, trips: Stage['trips'], inScript: readonly string[]): void {
  const sent = (trips.get(operation)?.statements ?? []).filter((name) => !NOT_IN_SCRIPTS.has(name));
  if (sent.join() === inScript.join()) return;
  throw new Error(
    `${operation}: our server sends ${sent.join()}, pgbench ${inScript.join()}; make peers/pgbench-scripts.ts the same`,
  );
}

export function startServers(bench: Bench, deployment: Deployment, processes: number): Promise<Holdfast> {
  return startScaleoutHoldfast(bench, deployment, { name: 'scaleout', processes, spaces: SPACE_NAMES });
}

/** A request for each node that is drawn, in turn over the Spaces: neighbours on the wire belong to different ones. */
export function formatEach(
  { hashes }: Stage,
  ours: Holdfast,
  format: (space: EnteredSpace, hash: string) => RequestTemplate,
): RequestTemplate[] {
  return Array.from({ length: drawnOf(hashes[0]?.length ?? 0) }, (_, index) =>
    ours.spaces.map((space, at) => format(space, hashes[at]?.[index] as string)),
  ).flat();
}

/** Covers all that were counted, unless named. */
export function describeTrips({ trips }: Stage, ...operations: readonly string[]): string {
  const named = operations.length === 0 ? [...trips.keys()] : operations;
  const lines = named.map((operation) => {
    const found = trips.get(operation);
    if (found === undefined) throw new Error(`Nobody counted the round trips of ${operation}.`);
    return `${operation}: ${found.trips}`;
  });
  return `round trips, counted: ${lines.join('; ')}`;
}

export function describeProcesses(processes: number): string {
  return `${processes} process${processes === 1 ? '' : 'es'}`;
}
