/**
 * PostgreSQL and the network fail in every known way. A call rejects with StoreUnavailable, or succeeds if nothing had been decided
 * yet. A failure never reads as absence, and the store recovers by itself.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres-server.ts';
import { recountScaleout } from '../../../../test/support/scaleout-recount.ts';
import { startTcpProxy, type TcpProxy } from '../../../../test/support/tcp-proxy.ts';
import { CounterBroken, InvariantViolation } from '../../core/invariant.ts';
import type { SpaceTransaction } from '../../core/ports.ts';
import { getUsage } from '../../core/read/get-usage.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { EngineRefused } from '../refused.ts';
import { hashAt, insertNodes, readNode, readyNode, SPACE } from '../test/samples.ts';
import { openPostgres } from './open-postgres.ts';
import { addressOf, coreOf, makeContent, openInstance, type StoreInstance } from './test/postgres-fixture.ts';
import type { PostgresLimits } from './wire/limits.ts';

const START_MS_MAX = 300_000;
/** Short enough to wait for. The other limits are those of service, because a busy machine may stand still for seconds. */
const LIMITS = {
  connectMs: 3_000,
  statementMs: 2_000,
  lockMs: 600,
  waitingMax: 50,
} satisfies Partial<PostgresLimits>;

let server: PostgresServer;
let proxy: TcpProxy;
/** past the proxy */
let url: string;
let instance: StoreInstance;

beforeAll(async () => {
  server = await startPostgres({ durable: false });
  proxy = await startTcpProxy({ port: server.port });
}, START_MS_MAX);
afterAll(async () => {
  await proxy.close();
  await server.stop();
});
beforeEach(async () => {
  url = await server.createDatabase();
  instance = await openThrough(proxy);
}, START_MS_MAX);
afterEach(async () => {
  proxy.setMode({ kind: 'pass' });
  await instance.close();
  expect(
    (await recountScaleout(url)).problems.filter((problem) => !problem.includes('content record')),
  ).toEqual([]);
  expect(instance.fatal).toEqual([]);
});

function openThrough({ port }: { port: number }, connectionsMax = 4): Promise<StoreInstance> {
  const address = new URL(url);
  address.port = String(port);
  return openInstance(address.href, { limits: LIMITS, connectionsMax });
}

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );
const insert = (index: number) => insertNodes(instance.store, SPACE, [readyNode(hashAt(index))]);
const find = (index: number) => instance.store.findNode(SPACE, hashAt(index));

/** Straight to the server, past the proxy. */
async function administer(statement: string): Promise<void> {
  const pool = await openPostgres(addressOf(url, { connectionsMax: 1 }));
  await pool.lend((connection) => connection.script(statement));
  await pool.close();
}

const KILL_ALL =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';

describe('a connection that is lost', () => {
  test('before the commit: the body runs again, and its effect is there once', async () => {
    await insert(1);
    let runs = 0;
    await instance.store.transact(SPACE, async (tx) => {
      const row = await readNode(tx, hashAt(1));
      runs += 1;
      if (runs === 1) await administer(KILL_ALL);
      await tx.update('node', row, { ...row, childRefCount: row.childRefCount + 1 });
      await tx.findNode(hashAt(2));
    });
    expect(runs).toBe(2);
    expect((await find(1))?.childRefCount).toBe(1);
    await instance.store.transact(SPACE, async (tx) => {
      const row = await readNode(tx, hashAt(1));
      await tx.update('node', row, { ...row, childRefCount: 0 });
    });
  });

  test('before the answer to COMMIT: the outcome is unknown, and the request can be repeated', async () => {
    await insert(1);
    const narrow = await openThrough(proxy, 1);
    const core = coreOf(narrow, makeContent());
    const requestOf = (requestId: string) => ({ requestId, changes: [{ hash: hashAt(1), delta: 1 }] });
    // Statements that the connection has prepared are sent together with the COMMIT.
    for (const each of ['first', 'second']) await updateRootRefs(core, SPACE, 'photos', requestOf(each));
    const cut: typeof core = {
      ...core,
      metadata: Object.create(narrow.store, {
        transact: {
          value: ((space, body, input, reads) => {
            const cutting = async (tx: SpaceTransaction) => {
              const value = await body(tx, input as never);
              // From here on requests arrive, and answers do not.
              proxy.setMode({ kind: 'cut', afterBytes: 1 });
              return value;
            };
            return narrow.store.transact(space, cutting, undefined, reads);
          }) satisfies StoreInstance['store']['transact'],
        },
      }),
    };
    const error = await errorOf(updateRootRefs(cut, SPACE, 'photos', requestOf('lost')));
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect((error as Error).message).toContain('outcome');
    proxy.setMode({ kind: 'pass' });
    const answer = await updateRootRefs(core, SPACE, 'photos', requestOf('lost'));
    expect(answer).toEqual({ success: true, idempotent: true, revision: 3 });
    expect((await find(1))?.rootRefCount).toBe(3);
    await narrow.close();
  });

  test('fails only the requests that used it', async () => {
    await insert(1);
    const other = await openThrough(proxy);
    await instance.store.transact(SPACE, async (tx) => {
      await tx.findNode(hashAt(1));
      expect(await other.store.findNode(SPACE, hashAt(1))).toBeDefined();
    });
    proxy.setMode({ kind: 'reset' });
    expect(await errorOf(find(1))).toBeInstanceOf(StoreUnavailable);
    proxy.setMode({ kind: 'pass' });
    for (let round = 0; round < 20; round += 1) expect(await find(1)).toBeDefined();
    await other.close();
  });
});

describe('a server that is away', () => {
  test('is an error, never absence; when it is back the store goes on', async () => {
    await insert(1);
    await server.kill();
    const reads = [find(1), instance.store.findUpload(SPACE, hashAt(1)), instance.store.readCounters(SPACE)];
    // Each promise is handled from the start, because they fail together in any order.
    for (const error of await Promise.all(reads.map(errorOf))) expect(error).toBeInstanceOf(StoreUnavailable);
    expect(await errorOf(insert(2))).toBeInstanceOf(StoreUnavailable);
    expect(await errorOf(instance.store.renewReadyLease(SPACE, hashAt(1), 60_000))).toBeInstanceOf(
      StoreUnavailable,
    );
    const page = { revision: 'current', after: undefined, limit: 1 } as const;
    expect(await errorOf(instance.store.findBalancesAt(SPACE, 'photos', page))).toBeInstanceOf(
      StoreUnavailable,
    );
    await server.restart();
    expect((await find(1))?.hash).toBe(hashAt(1));
    await insert(2);
    expect(await instance.store.renewReadyLease(SPACE, hashAt(2), 60_000)).toBeDefined();
  }, 300_000);

  test('amid many requests: each is answered or refused, and what was answered is stored', async () => {
    const writes = Array.from({ length: 40 }, (_, index) => insert(index).then(() => index));
    const settled = Promise.allSettled(writes);
    await Bun.sleep(20);
    await server.kill();
    const outcomes = await settled;
    await server.restart();
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') expect(await find(outcome.value)).toBeDefined();
      else expect(outcome.reason).toBeInstanceOf(StoreUnavailable);
    }
    await insert(1000);
  }, 300_000);
});

test('a network that hangs fails those who wait, in bounded time', async () => {
  await insert(1);
  proxy.setMode({ kind: 'hang' });
  const startedAt = performance.now();
  expect(await errorOf(find(1))).toBeInstanceOf(StoreUnavailable);
  // The silence of the old connection, then the time to open another for the second try.
  expect(performance.now() - startedAt).toBeLessThan(45_000);
  proxy.setMode({ kind: 'pass' });
  expect(await find(1)).toBeDefined();
}, 300_000);

test('a renewal behind a hanging one is refused as soon as any waiting request, and is never made', async () => {
  await insert(1);
  const [second, hour] = [1_000, 3_600_000];
  const renew = (durationMs: number) => instance.store.renewReadyLease(SPACE, hashAt(1), durationMs);
  const { leaseExpiresAt = 0 } = (await renew(second)) ?? {};
  proxy.setMode({ kind: 'hang' });
  const ended: string[] = [];
  const end = (name: string) => (error: unknown) => {
    ended.push(name);
    return error;
  };
  const waiting = [errorOf(renew(second)).then(end('sent'))];
  for (const name of ['first', 'second', 'third']) {
    await Bun.sleep(50);
    waiting.push(errorOf(renew(hour)).then(end(name)));
  }
  for (const error of await Promise.all(waiting)) expect(error).toBeInstanceOf(StoreUnavailable);
  // The one that was sent waits until the network is taken to hang, and for another connection.
  expect(ended).toEqual(['first', 'second', 'third', 'sent']);
  proxy.setMode({ kind: 'pass' });
  // The renewal that was sent may have arrived; the others were never sent.
  expect((await find(1))?.leaseExpiresAt).toBeLessThan(leaseExpiresAt + hour / 2);
  expect(await renew(hour)).toBeDefined();
}, 300_000);

test('a statement that takes too long is ended, and its connection serves on', async () => {
  // A pool of one connection, because others may still take the place of those that hung.
  const pool = await openPostgres(addressOf(url, { connectionsMax: 1 }), LIMITS);
  const findBackend = async () =>
    (await pool.read('looking', 'SELECT pg_backend_pid() AS pid', [])).rows[0]?.pid;
  const before = await findBackend();
  const error = await errorOf(pool.run('sleeping', 'SELECT pg_sleep($1)', [30]));
  expect(error).toBeInstanceOf(StoreUnavailable);
  expect((error as Error).message).toContain('57014');
  expect(await findBackend()).toBe(before);
  await pool.close();
});

describe('a transaction that the server refuses', () => {
  /** Refuses the first `times` inserts of nodes, counted by a sequence, because a rollback does not reset it. */
  const turnDown = (times: number, code: string, when: 'at once' | 'at the commit') =>
    administer(`CREATE SEQUENCE attempts;
      CREATE FUNCTION turn_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('attempts') <= ${times} THEN RAISE EXCEPTION 'planted' USING ERRCODE = '${code}'; END IF;
        RETURN NEW; END $$;
      CREATE ${when === 'at once' ? 'TRIGGER planted BEFORE' : 'CONSTRAINT TRIGGER planted AFTER'} INSERT ON nodes
        ${when === 'at once' ? '' : 'DEFERRABLE INITIALLY DEFERRED'} FOR EACH ROW EXECUTE FUNCTION turn_down()`);

  for (const code of ['40001', '40P01']) {
    for (const when of ['at once', 'at the commit'] as const) {
      test(`with ${code} ${when} runs again until it succeeds`, async () => {
        await turnDown(3, code, when);
        let runs = 0;
        await instance.store.transact(SPACE, async (tx) => {
          runs += 1;
          await tx.insert('node', readyNode(hashAt(1)));
        });
        expect(runs).toBe(4);
        expect((await instance.store.readCounters(SPACE)).nodeCount).toBe(1);
      });
    }
  }

  test('every time is unavailable after a bounded number of tries', async () => {
    await turnDown(1_000_000, '40001', 'at once');
    let runs = 0;
    const error = await errorOf(
      instance.store.transact(SPACE, async (tx) => {
        runs += 1;
        await tx.insert('node', readyNode(hashAt(1)));
      }),
    );
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect(runs).toBeLessThan(50);
    expect(await find(1)).toBeUndefined();
  }, 300_000);

  test('because a count would be negative is an error that names its Space, and nothing of it stays', async () => {
    await turnDown(1, '23514', 'at once');
    const error = await errorOf(insert(1));
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect((error as CounterBroken).space).toEqual(SPACE);
    expect(await find(1)).toBeUndefined();
    await insert(1);
  });

  test('because a count is negative refuses that commit, and commits of the same group go on', async () => {
    for (const index of [1, 2, 3]) await insert(index);
    await administer(`UPDATE nodes SET held_domain_count = 1, fixed_sum = NULL, row_sum = NULL WHERE hash = '\\x${hashAt(2)}';
      ALTER TABLE nodes DROP CONSTRAINT nodes_root_ref_count_check, ADD CHECK (held_domain_count < 2)`);
    const core = coreOf(instance, makeContent());
    const commit = (index: number) =>
      errorOf(
        updateRootRefs(core, SPACE, 'photos', {
          requestId: `request ${index}`,
          changes: [{ hash: hashAt(index), delta: 1 }],
        }),
      );
    const outcomes = await Promise.all([commit(1), commit(2), commit(3)]);
    expect(outcomes.map((error) => error instanceof CounterBroken)).toEqual([false, true, false]);
    expect([outcomes[0], outcomes[2]]).toEqual([undefined, undefined]);
    await administer(`UPDATE nodes SET held_domain_count = 0 WHERE hash = '\\x${hashAt(2)}'`);
  });

  test('because usage is negative answers no usage, and names the Space', async () => {
    await insert(1);
    await administer('UPDATE usage_counters SET node_count = node_count - 2, row_sum = NULL');
    const core = coreOf(instance, makeContent());
    expect(await errorOf(getUsage(core, SPACE))).toBeInstanceOf(CounterBroken);
    expect((await getUsage(core, { ...SPACE, spaceId: 'other' })).nodeCount).toBe(0);
    await administer('UPDATE usage_counters SET node_count = node_count + 2');
  });

  test('because a row changed behind its lock ends the process, and nothing of it stays', async () => {
    await insert(1);
    await administer(`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
      CREATE TRIGGER planted BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION swallow()`);
    const change = instance.store.transact(SPACE, async (tx) => {
      const row = await readNode(tx, hashAt(1));
      await tx.update('node', row, { ...row, state: 'rotten' });
      await tx.insert('node', readyNode(hashAt(2)));
    });
    expect(await errorOf(change)).toBeInstanceOf(InvariantViolation);
    expect(instance.fatal.splice(0).length).toBe(1);
    expect(await find(2)).toBeUndefined();
  });
});

describe('more work than connections', () => {
  test('waits for a bounded time, and a bounded number may wait', async () => {
    const narrow = await openThrough(proxy, 1);
    await insertNodes(narrow.store, SPACE, [readyNode(hashAt(1))]);
    const released = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const holding = narrow.store.transact(SPACE, async (tx) => {
      await tx.findNode(hashAt(1));
      held.resolve();
      await released.promise;
    });
    await held.promise;
    const ended: string[] = [];
    const ask = async (name: string): Promise<void> => {
      expect(await errorOf(narrow.store.findNode(SPACE, hashAt(1)))).toBeInstanceOf(StoreUnavailable);
      ended.push(name);
    };
    const waiting = Array.from({ length: LIMITS.waitingMax }, () => ask('waited'));
    // One too many is refused at once, before the waiting ones time out.
    await Promise.all([...waiting, ask('refused')]);
    expect(ended).toEqual(['refused', ...waiting.map(() => 'waited')]);
    released.resolve();
    await holding;
    expect(await narrow.store.findNode(SPACE, hashAt(1))).toBeDefined();
    await narrow.close();
  });

  test('uses no more connections than it may', async () => {
    const narrow = await openThrough(proxy, 3);
    const before = proxy.accepted;
    await Promise.all(Array.from({ length: 40 }, () => narrow.store.findNode(SPACE, hashAt(1))));
    expect(proxy.accepted - before).toBeLessThan(3);
    await narrow.close();
  });
});

test('a server that answers before data is on disk is told to wait, and a stricter one keeps its setting', async () => {
  for (const [configured, expected] of [
    ['off', 'on'],
    ['on', 'on'],
    ['remote_apply', 'remote_apply'],
  ]) {
    await administer(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = ${configured}',
      current_database()); END $$`);
    const pool = await openPostgres(addressOf(url, { connectionsMax: 1 }));
    const { rows } = await pool.read('looking', 'SELECT current_setting($1) AS setting', [
      'synchronous_commit',
    ]);
    expect(rows[0]?.setting).toBe(expected);
    await pool.close();
  }
});

test('no error shows the password, and an error is unavailability only if waiting can help', async () => {
  const { password } = new URL(url);
  for (const [changes, kind] of [
    [{ database: 'nobody_made_this' }, EngineRefused],
    [{ hosts: [{ host: '127.0.0.1', port: 1 }] }, StoreUnavailable],
    [{ user: 'nobody' }, EngineRefused],
    [{ tls: 'require' }, StoreUnavailable],
    [{ password: `${password}x` }, EngineRefused],
  ] as const) {
    const error = (await errorOf(openPostgres(addressOf(url, changes)))) as Error;
    expect(error).toBeInstanceOf(kind);
    const told = Bun.inspect([error, error.cause]) + JSON.stringify([error, error.cause]);
    expect([password.length > 8, told.includes(password)]).toEqual([true, false]);
  }
});

test('a closed store refuses everything', async () => {
  const other = await openThrough(proxy);
  await other.close();
  expect(await errorOf(other.store.findNode(SPACE, hashAt(1)))).toBeInstanceOf(StoreUnavailable);
  expect(await errorOf(insertNodes(other.store, SPACE, [readyNode(hashAt(1))]))).toBeInstanceOf(
    StoreUnavailable,
  );
});
