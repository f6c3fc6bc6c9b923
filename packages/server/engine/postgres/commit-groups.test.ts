/** Commits that share a transaction are what they would be one after another, and cost less. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import type { Core } from '../../core/core.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import type { MetadataStore, RootRefReads, SpaceTransaction } from '../../core/ports.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../test/samples.ts';
import { ALONE_AT_ONCE_MAX, type Body, CommitGroups, type Outcome } from './commit-groups.ts';
import {
  coreOf,
  makeContent,
  openDatabases,
  openInstance,
  type StoreInstance,
} from './test/postgres-fixture.ts';

const START_MS_MAX = 300_000;
const NODES = 10;

let databases: TestDatabases;
let instance: StoreInstance;
let core: Core;

beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());
beforeEach(async () => {
  instance = await openInstance(await databases.createDatabase());
  core = coreOf(instance, makeContent());
  await insertNodes(
    instance.store,
    SPACE,
    Array.from({ length: NODES }, (_, index) => readyNode(hashAt(index))),
  );
});
afterEach(async () => {
  expect(instance.fatal).toEqual([]);
  await instance.close();
});

const commit = (domain: string, requestId: string, deltas: Readonly<Record<number, number>>) =>
  updateRootRefs(core, SPACE, domain, {
    requestId,
    changes: Object.entries(deltas).map(([index, delta]) => ({ hash: hashAt(Number(index)), delta })),
  }).catch((error: unknown) => {
    if (error instanceof ApiError) return error.code;
    throw error;
  });

/** Keeps the history of all that follows. Its commit is the first. */
async function walk(domain: string): Promise<void> {
  await commit(domain, 'walk', { 0: 0 });
  await instance.store.transact(SPACE, (tx) => tx.noteWalk(domain));
}

const rootRefsOf = async (index: number) =>
  (await instance.store.findNode(SPACE, hashAt(index)))?.rootRefCount;

const balancesAt = async (domain: string, revision: number) => {
  const page = await instance.store.findBalancesAt(SPACE, domain, { revision, after: undefined, limit: 100 });
  return page?.items.map(({ hash, balance }) => [hash, balance]);
};

test('many at once take few round trips, and each revision is what its commit made it', async () => {
  const count = 100;
  await walk('one');
  const before = instance.pool.counter.roundTrips;
  const [, ...answers] = await Promise.all([
    commit('first', 'alone', { 0: 0 }),
    ...Array.from({ length: count }, (_, index) => commit('one', String(index), { [index % NODES]: 1 })),
  ]);
  // Alone: 2 each.
  expect(instance.pool.counter.roundTrips - before).toBeLessThan(count / 2);
  const revisions = answers.map((answer) => (typeof answer === 'string' ? answer : answer.revision));
  expect(revisions).toEqual(Array.from({ length: count }, (_, index) => index + 2));
  for (const revision of [1, 5, 37, 99, 100]) {
    const expected = Array.from({ length: NODES }, (_, index) => {
      return [hashAt(index), Math.floor(revision / NODES) + Number(index < revision % NODES)];
    }).filter(([, balance]) => balance !== 0);
    expect(await balancesAt('one', revision + 1)).toEqual(expected);
  }
});

test('commits that fail undo nothing of the others', async () => {
  await walk('two');
  const [, ...answers] = await Promise.all([
    commit('first', 'alone', { 0: 1 }),
    commit('one', 'a', { 0: 1 }),
    commit('one', 'b', { 1: 2 }),
    commit('one', 'c', { 1: -5 }),
    commit('two', 'd', { 999: 1 }),
    commit('two', 'e', { 1: -2, 2: 1 }),
    commit('one', 'b', { 1: 2 }),
    commit('one', 'b', { 1: 3 }),
    commit('two', 'f', { 2: -1 }),
  ]);
  const made = (revision: number, idempotent = false) => ({ success: true, idempotent, revision });
  expect(answers).toEqual([
    made(1),
    made(2),
    'CONFLICT',
    'NOT_FOUND',
    made(2),
    made(2, true),
    'IDEMPOTENCY_CONFLICT',
    made(3),
  ]);
  expect([await rootRefsOf(0), await rootRefsOf(1), await rootRefsOf(2)]).toEqual([2, 0, 0]);
  expect(await balancesAt('two', 2)).toEqual([
    [hashAt(1), -2],
    [hashAt(2), 1],
  ]);
  expect(await balancesAt('two', 3)).toEqual([[hashAt(1), -2]]);
});

test('commits of a group that the server refuses run one by one', async () => {
  await instance.pool.lend((connection) =>
    connection.script(`CREATE FUNCTION turn_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM added) > 1 THEN RAISE EXCEPTION 'planted' USING ERRCODE = '40001'; END IF;
        RETURN NULL; END $$;
      CREATE TRIGGER planted AFTER INSERT ON root_ref_commits REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION turn_down()`),
  );
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) => commit(`domain${index % 3}`, String(index), { [index % 3]: 1 })),
  );
  expect(answers.filter((answer) => typeof answer === 'string')).toEqual([]);
  expect([await rootRefsOf(0), await rootRefsOf(1), await rootRefsOf(2)]).toEqual([4, 4, 4]);
});

test('a commit that fails half way leaves nothing, and the others are made', async () => {
  const reads = { domain: 'one', requestId: 'half', hashes: [hashAt(1)] };
  const halfWay: Body = async (tx) => {
    const [, , [node]] = await Promise.all([
      tx.findRootRefCommit('one', 'half'),
      tx.findRevision('one'),
      tx.findNodes([hashAt(1)]),
      tx.findBalances('one', [hashAt(1)]),
    ]);
    if (node === undefined) throw new Error('no node');
    await tx.update('node', node, { ...node, rootRefCount: node.rootRefCount + 7, heldDomainCount: 1 });
    throw new Error('half way');
  };
  const [, ...answers] = await Promise.all([
    commit('first', 'alone', { 0: 1 }),
    commit('one', 'a', { 1: 1 }),
    instance.store.transact(SPACE, halfWay, undefined, reads).catch((error: Error) => error.message),
    commit('one', 'b', { 1: 2 }),
  ]);
  expect(answers[1]).toBe('half way');
  expect(answers.filter((answer) => typeof answer === 'object')).toHaveLength(2);
  expect(await rootRefsOf(1)).toBe(3);
});

test('a group whose COMMIT is not answered is refused as a whole, and every request can be repeated', async () => {
  // The server hangs up while it commits, so the outcome is unknown here.
  await instance.pool.lend((connection) =>
    connection.script(`CREATE FUNCTION hang_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM root_ref_commits WHERE domain = 'one') > 2 THEN
          PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER planted AFTER INSERT ON root_ref_commits DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION hang_up()`),
  );
  const requests = ['a', 'b', 'c'].map((id, index) => [id, { [index]: 1 }] as const);
  // The transactions before it run alone.
  const [, , ...answers] = await Promise.allSettled([
    commit('first', 'alone', { 0: 0 }),
    commit('first', 'beside', { 0: 0 }),
    ...requests.map(([id, deltas]) => commit('one', id, deltas)),
  ]);
  for (const answer of answers) {
    if (answer.status === 'fulfilled') throw new Error(`answered ${JSON.stringify(answer.value)}`);
    expect(answer.reason).toBeInstanceOf(StoreUnavailable);
    expect((answer.reason as Error).message).toContain('outcome');
  }
  await instance.pool.lend((connection) => connection.script('DROP TRIGGER planted ON root_ref_commits'));
  for (const [id, deltas] of requests) await commit('one', id, deltas);
  for (const [id, deltas] of requests)
    expect(await commit('one', id, deltas)).toMatchObject({ idempotent: true });
  expect([await rootRefsOf(0), await rootRefsOf(1), await rootRefsOf(2)]).toEqual([1, 1, 1]);
});

describe('a group that cannot begin, or not as one', () => {
  const done = { ok: true, value: undefined } as const;
  const reads = { domain: 'one', requestId: 'r', hashes: [] };
  const commitOf = (groups: CommitGroups, body: () => Promise<typeof done>) =>
    groups.run(
      'space',
      { body, reads },
      { runAlone: (run) => run(neverUsed) as Promise<Outcome>, runTogether: async () => undefined },
    );
  const neverUsed = {} as SpaceTransaction;

  /** Counts the runs that wait, and releases them all at once. */
  function holdRuns() {
    let release!: () => void;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const held = { begun: 0, release: () => release(), run };
    async function run() {
      held.begun += 1;
      await released;
      return done;
    }
    return held;
  }

  test('a commit whose group does not begin is refused, and never runs', async () => {
    const groups = new CommitGroups(20);
    const held = holdRuns();
    const first = commitOf(groups, held.run);
    await expect(commitOf(groups, held.run)).rejects.toThrow(StoreUnavailable);
    const late = commitOf(groups, held.run);
    held.release();
    expect(await Promise.all([first, late])).toEqual([done, done]);
    expect(held.begun).toBe(2);
  });

  test('commits of a group that did not begin run by themselves, a few at once', async () => {
    const groups = new CommitGroups();
    let [running, most, runs] = [0, 0, 0];
    const run = async () => {
      runs += 1;
      running += 1;
      most = Math.max(most, running);
      await Bun.sleep(1);
      running -= 1;
      return done;
    };
    const all = Array.from({ length: 65 }, () => commitOf(groups, run));
    expect(await Promise.all(all)).toEqual(all.map(() => done));
    expect({ runs, most }).toEqual({ runs: 65, most: ALONE_AT_ONCE_MAX });
  });

  test('no commit that waits to run by itself waits for ever', async () => {
    const groups = new CommitGroups(50);
    const held = holdRuns();
    const first = commitOf(groups, async () => done);
    // Each promise is handled from the start, because all are refused together.
    const joined = Array.from({ length: 40 }, () =>
      commitOf(groups, held.run).catch((error: unknown) => error),
    );
    await first;
    for (const refused of await Promise.all(joined.slice(ALONE_AT_ONCE_MAX)))
      expect(refused).toBeInstanceOf(StoreUnavailable);
    held.release();
    const begun = joined.slice(0, ALONE_AT_ONCE_MAX);
    expect(await Promise.all(begun)).toEqual(begun.map(() => done));
    expect(held.begun).toBe(ALONE_AT_ONCE_MAX);
  });
});

test('a commit waits for no other kind of transaction', async () => {
  let release!: () => void;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const other = instance.store.transact(SPACE, async (tx) => {
    await tx.findNode(hashAt(9));
    await released;
  });
  await Promise.all([commit('one', 'a', { 0: 1 }), commit('one', 'b', { 1: 1 })]);
  release();
  await other;
  expect([await rootRefsOf(0), await rootRefsOf(1)]).toEqual([1, 1]);
});

describe('what an operation says that it reads', () => {
  async function readsOf(operation: (core: Core) => Promise<unknown>): Promise<RootRefReads | undefined> {
    let given: [RootRefReads | undefined] | undefined;
    const transact = ((_space, _body, _input, reads) => {
      given = [reads];
      throw new Error('not run');
    }) satisfies MetadataStore['transact'];
    const metadata = { transact, renewReadyLease: undefined } as unknown as MetadataStore;
    await operation({ ...core, metadata }).catch(() => undefined);
    if (given === undefined) throw new Error('the operation has no transaction');
    return given[0];
  }

  test('names a commit, and the rows to read for it', async () => {
    const request = { requestId: 'r', changes: [{ hash: hashAt(3), delta: 1 }] };
    const reads = await readsOf((fake) => updateRootRefs(fake, SPACE, 'photos', request));
    expect(reads).toEqual({ domain: 'photos', requestId: 'r', hashes: [hashAt(3)] });
  });

  test('is nothing for any other kind of operation', async () => {
    expect(await readsOf((fake) => leaseNode(fake, SPACE, hashAt(1), 60_000, () => ''))).toBeUndefined();
  });
});
