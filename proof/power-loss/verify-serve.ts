/** The product on what a power loss left: all that was acknowledged by then must be there, and nothing may be half there. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import { leasePack } from '../../packages/server/core/packs/lease-pack.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { openRegistry } from '../../packages/server/deployment/registry.ts';
import type { CanonicalNode } from '../../test/support/canonical-node.ts';
import { recount } from '../../test/support/embedded-recount.ts';
import { lease, openFolder, SPACE, type World } from '../row-rot/world.ts';
import type { Scenario } from './images.ts';
import {
  balancesOf,
  DATA,
  type KnownCommit,
  runServeScenario,
  type ServeScenario,
} from './serve-scenario.ts';
import { verifyCheck, verifyNodes } from './verify-nodes.ts';

const COMMITS_OF_A_SERVER = 8;

const DOMAIN = 'test';
const ROOT_REFS_MAX = 200;
const MINUTE_MS = 60_000;

/** What had been acknowledged by a line of the trace. */
interface Expected {
  readonly isAppKnown: boolean;
  readonly ready: readonly CanonicalNode[];
  readonly put: readonly CanonicalNode[];
  readonly packs: ServeScenario['facts']['packs'];
  /** in order; the last one of `possible` was sent, and not answered */
  readonly commits: readonly KnownCommit[];
  readonly possible: KnownCommit | undefined;
  readonly now: number;
}

function expectedAt({ run, facts }: ServeScenario, at: number): Expected {
  const isKnown = ({ id }: { readonly id: string }): boolean => run.lineOf(id) <= at;
  const server = facts.servers.findLastIndex(({ from }) => from <= at);
  const commits = facts.commits.filter(({ answer }) => answer !== undefined && isKnown(answer));
  const possible = facts.commits[commits.length];
  const here = <T extends { readonly id: string; readonly server: number }>(all: readonly T[]): T[] =>
    all.filter((each) => each.server === server && isKnown(each));
  return {
    isAppKnown: at >= facts.appFrom,
    ready: [...here(facts.ready).map(({ node }) => node), ...keptByRoots(facts, commits, possible)],
    put: here(facts.put).map(({ node }) => node),
    packs: here(facts.packs),
    ...{ commits, possible, now: Date.now() + (facts.servers[server]?.offsetMs ?? 0) },
  };
}

/** What a root ref keeps, whether the last commit was made or not. */
function keptByRoots(
  { ready }: ServeScenario['facts'],
  commits: readonly KnownCommit[],
  possible: KnownCommit | undefined,
): CanonicalNode[] {
  const nodes = new Map(ready.map(({ node }) => [node.hash, node]));
  const after = possible === undefined ? undefined : balancesOf([...commits, possible]);
  const kept = new Map<string, CanonicalNode>();
  const keep = (hash: string): void => {
    const node = nodes.get(hash);
    if (node === undefined || kept.has(hash)) return;
    kept.set(hash, node);
    node.refs.forEach(keep);
  };
  for (const [hash, balance] of balancesOf(commits))
    if (balance > 0 && (after?.get(hash) ?? balance) > 0) keep(hash);
  return [...kept.values()];
}

export async function makeServeScenario(seed: number): Promise<Scenario> {
  const scenario = await runServeScenario(seed, COMMITS_OF_A_SERVER);
  const { run } = scenario;
  run.assertFollowed();
  return { name: 'serve', run, verify: (disk, at) => verifyServe(scenario, disk, at) };
}

/** A line for each thing that is wrong; none: the promises hold. */
async function verifyServe(scenario: ServeScenario, disk: string, at: number): Promise<string[]> {
  const data = join(disk, DATA);
  const expected = expectedAt(scenario, at);
  const wrong: string[] = [];
  if (!existsSync(data)) return expected.isAppKnown ? ['the data folder is gone'] : [];
  if (expected.isAppKnown) await verifyApp(data, wrong);
  // Upload URLs and cursors that were answered are signed with it.
  if (expected.commits.length > 0 && !isSame(scenario.run.root, disk, join(DATA, 'secret.key')))
    wrong.push('the secret is another one');
  let world: World;
  try {
    world = await openFolder(data)(expected.now, 3);
  } catch (error) {
    return [...wrong, `the server does not start: ${error}`];
  }
  try {
    await verifyCommits(world, expected, wrong);
    await verifyUploads(world, expected, wrong);
    await verifyNodes(world, expected.ready, wrong, 'at first');
    await verifyCheck(world, wrong);
    await runGc(world.core, SPACE, 1_000);
    for (let steps = 0; steps < 20 && (await sweep(world.core)).moreToDo; steps += 1);
    await verifyNodes(world, expected.ready, wrong, 'after a collection');
    await verifyCheck(world, wrong);
  } catch (error) {
    wrong.push(`it fails: ${error instanceof Error ? error.stack : error}`);
  } finally {
    wrong.push(...world.fatal.map((error) => `the process would end: ${error.message}`));
    await world.close();
  }
  return [...wrong, ...recount(data).problems];
}

function isSame(one: string, two: string, path: string): boolean {
  const [first, second] = [one, two].map((folder) => join(folder, path));
  return existsSync(second as string) && readFileSync(first as string).equals(readFileSync(second as string));
}

async function verifyApp(data: string, wrong: string[]): Promise<void> {
  try {
    const registry = await openRegistry({ kind: 'folder', dataDir: data });
    const apps = await registry.listApps();
    await registry.close();
    if (!apps.some(({ appId }) => appId === 'app')) wrong.push('the App is not registered');
  } catch (error) {
    wrong.push(`the registry does not open: ${error}`);
  }
}

async function verifyCommits(world: World, { commits, possible }: Expected, wrong: string[]): Promise<void> {
  const page = await listRootRefs(world.core, SPACE, DOMAIN, { limit: ROOT_REFS_MAX });
  const told = commits.at(-1)?.answer?.revision ?? 0;
  const isMade = page.revision === told + 1 && possible !== undefined;
  if (page.revision !== told && !isMade)
    wrong.push(`revision ${page.revision}, and ${told} was acknowledged`);
  const found = page.items.map(({ hash, refCount }) => `${hash} ${refCount}`).sort();
  const due = [...balancesOf(isMade ? [...commits, possible] : commits)]
    .filter(([, balance]) => balance > 0)
    .map(([hash, balance]) => `${hash} ${balance}`);
  if (found.join() !== due.sort().join()) wrong.push(`the root refs of revision ${page.revision} are wrong`);
  const last = commits.at(-1);
  if (last === undefined) return;
  const changes = [...last.changes].map(([hash, delta]) => ({ hash, delta }));
  changes.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const again = await updateRootRefs(world.core, SPACE, DOMAIN, { requestId: last.requestId, changes });
  if (again.revision !== told) wrong.push(`${last.requestId} was made again`);
}

/** Bytes that were accepted are not asked for again. */
async function verifyUploads(world: World, { put, packs }: Expected, wrong: string[]): Promise<void> {
  for (const { hash } of put) {
    const { state } = await lease(world, hash);
    if (state !== 'ready' && state !== 'validated_awaiting_children')
      wrong.push(`the uploaded node ${hash} is ${state}`);
  }
  for (const { pack, nodes } of packs) {
    try {
      const { results } = await leasePack(world.core, SPACE, pack, MINUTE_MS, { renewsOnly: false });
      const bad = results.filter(({ state }) => state !== 'ready').map(({ state }) => state);
      if (results.length !== nodes.length || bad.length > 0) wrong.push(`the pack ${pack} is ${bad.join()}`);
    } catch (error) {
      wrong.push(`the pack ${pack}: ${error}`);
    }
  }
}
