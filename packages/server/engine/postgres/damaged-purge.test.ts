/** A purge, and a plan of a collection, beside a damaged page of a real PostgreSQL: all else is done, and the damage is named. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres-server.ts';
import { planGc } from '../../core/collect/plan-gc.ts';
import { purgeSpace } from '../../core/collect/purge-space.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import type { Core } from '../../core/core.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import { SPACE } from '../test/samples.ts';
import { damagePage } from './test/damaged-page-fixture.ts';
import { bring, coreOf, leaseFor, makeContent, openInstance, publish } from './test/postgres-fixture.ts';

const TEST_MS_MAX = 300_000;
const LEAVES = 240;
const LEAVES_PER_PARENT = 4;
const BLOCK = 2;
const DAMAGED = `block ${BLOCK} of the table nodes is damaged`;

let postgres: PostgresServer;
beforeAll(async () => {
  postgres = await startPostgres({ settings: { autovacuum: 'off' } });
}, TEST_MS_MAX);
afterAll(() => postgres.stop());

interface Scene {
  readonly nodes: readonly CanonicalNode[];
  readonly damaged: ReadonlySet<Hash>;
  open(work: (core: Core) => Promise<void>): Promise<void>;
  mend(): Promise<void>;
  /** ms */
  pass(ms: number): void;
}

/** Leaves, parents of some each, a root ref on every other parent, and parents that wait, all in a few pages; one is damaged. */
async function prepare(): Promise<Scene> {
  const url = await postgres.createDatabase();
  const clock = { at: 1_000_000_000_000, now: () => clock.at };
  const content = makeContent(clock.now);
  const open = async (work: (core: Core) => Promise<void>): Promise<void> => {
    const instance = await openInstance(url, { clock });
    await work(coreOf(instance, content));
    await instance.close();
    expect(instance.fatal).toEqual([]);
  };
  const leaves = Array.from({ length: LEAVES }, (_, seed) => makeNode(`leaf ${seed}`));
  const parents = Array.from({ length: LEAVES / LEAVES_PER_PARENT }, (_, seed) => {
    const start = seed * LEAVES_PER_PARENT;
    return makeNode(`parent ${seed}`, {
      refs: leaves.slice(start, start + LEAVES_PER_PARENT).map(({ hash }) => hash),
    });
  });
  const waiting = parents.map(({ hash }, seed) =>
    makeNode(`waiting ${seed}`, { refs: [hash, makeNode(`never ${seed}`).hash] }),
  );
  await open(async (core) => {
    for (const node of [...leaves, ...parents]) await publish(core, content, node);
    for (const node of waiting.slice(0, 10)) {
      await bring(core, content, node);
      await leaseFor(core, node);
    }
    const changes = parents.filter((_, seed) => seed % 2 === 0).map(({ hash }) => ({ hash, delta: 1 }));
    await updateRootRefs(core, SPACE, 'domain', { requestId: 'held', changes });
  });
  const { hashes, mend } = await damagePage(postgres, url, 'nodes', BLOCK);
  expect(hashes.length).toBeGreaterThan(10);
  return {
    nodes: [...leaves, ...parents, ...waiting.slice(0, 10)],
    damaged: new Set(hashes),
    open,
    mend,
    pass: (ms) => {
      clock.at += ms;
    },
  };
}

const always = async (): Promise<boolean> => true;
const refsOf = ({ refs }: CanonicalNode): readonly Hash[] => refs;

/** The hashes of those nodes that can be read. */
async function findLeft(core: Core, nodes: readonly CanonicalNode[]): Promise<Hash[]> {
  const left: Hash[] = [];
  for (const { hash } of nodes) {
    const row = await core.metadata.findNode(SPACE, hash);
    if (row !== undefined) left.push(hash);
  }
  return left;
}

test(
  'a purge removes all that damage does not keep, names it, and ends once the page is mended',
  async () => {
    const { nodes, damaged, open, mend } = await prepare();
    const readable = nodes.filter(({ hash }) => !damaged.has(hash));
    const mayGoOn = async (isAround: boolean): Promise<boolean> => isAround || performance.now() > 0;
    await open(async (core) => {
      const failure = await purgeSpace(core, SPACE, mayGoOn).catch((error) => error);
      expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
      expect(failure.cause.message).toContain(DAMAGED);
      const left = await findLeft(core, readable);
      expect(failure.message).toContain(
        `${nodes.length - left.length - damaged.size} nodes were removed, and ${left.length + damaged.size} are left`,
      );
      // A parent of a damaged node stays, and so does what it keeps.
      const isKept = new Set<Hash>();
      for (const node of nodes.toReversed()) {
        if (
          damaged.has(node.hash) ||
          isKept.has(node.hash) ||
          refsOf(node).some((hash) => damaged.has(hash))
        ) {
          for (const hash of refsOf(node)) isKept.add(hash);
          isKept.add(node.hash);
        }
      }
      expect(left.toSorted()).toEqual(
        readable
          .map(({ hash }) => hash)
          .filter((hash) => isKept.has(hash))
          .toSorted(),
      );
      expect(left.length).toBeLessThan(readable.length);
    });
    await mend();
    await open(async (core) => {
      expect(await purgeSpace(core, SPACE, always)).toMatchObject({ isFinished: true });
      expect((await core.metadata.readCounters(SPACE)).nodeCount).toBe(0);
    });
  },
  TEST_MS_MAX,
);

test(
  'a plan leaves out what cannot be read, says so, and names all that the pass takes',
  async () => {
    const { nodes, damaged, open, pass } = await prepare();
    pass(120_000);
    await open(async (core) => {
      const { damage, ...plan } = await planGc(core, SPACE, 10_000);
      expect((damage as Error).message).toContain(DAMAGED);
      expect(plan.nodes.length).toBeGreaterThan(0);
      const failure = await runGc(core, SPACE, 10_000).catch((error) => error);
      const readable = nodes.filter(({ hash }) => !damaged.has(hash));
      const left = new Set(await findLeft(core, readable));
      const gone = readable.filter(({ hash }) => !left.has(hash));
      expect(failure.message).toContain(`${gone.length} other nodes were collected`);
      expect(gone.length).toBeGreaterThan(0);
      const planned = new Set(plan.nodes.map(({ hash }) => hash));
      expect(gone.filter(({ hash }) => !planned.has(hash))).toEqual([]);
      // PostgreSQL may choose the damaged page for the new version of a row: then a parent stays claimed, and its children stay.
      const claimed = new Set<Hash>();
      for (const { hash, refs } of readable) {
        if ((await core.metadata.findNode(SPACE, hash))?.state !== 'claimed') continue;
        for (const each of [hash, ...refs]) claimed.add(each);
      }
      expect([...planned].filter((hash) => left.has(hash) && !claimed.has(hash))).toEqual([]);
    });
  },
  TEST_MS_MAX,
);
