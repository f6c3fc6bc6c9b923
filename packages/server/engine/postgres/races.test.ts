/**
 * Several processes change one Space concurrently, on a real PostgreSQL: each store here has connections and memory of its own, like
 * a process. After each race a recount by other statements finds no fault.
 */
import { describe, expect, test } from 'bun:test';
import type { ApiError, LeaseResponse } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import { sweep } from '../../core/collect/sweep.ts';
import type { Core } from '../../core/core.ts';
import type { MetadataStore, SpaceTransaction } from '../../core/ports.ts';
import { listRootRefs } from '../../core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import type { DirectStore } from '../../core/test/direct-store.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../test/samples.ts';
import {
  bring,
  coreOf,
  expectRecounted,
  leaseFor,
  makeContent,
  publish,
  type StoreInstance,
  useProcesses,
} from './test/postgres-fixture.ts';

const PROCESSES = 3;
const DOMAIN = 'photos';

let instances: StoreInstance[];
let content: DirectStore;
let cores: Core[];
let made = 0;

useProcesses(PROCESSES, {
  use(opened) {
    instances = opened;
    content = makeContent();
    cores = instances.map((instance) => coreOf(instance, content));
  },
  check: expectRecounted,
});

function newNode(refs: readonly CanonicalNode[] = []): CanonicalNode {
  made += 1;
  return makeNode(`node ${made}`, { refs: refs.map(({ hash }) => hash) });
}

const core = (index: number): Core => cores[index % PROCESSES] as Core;

/** A process whose publication pauses between its reads and its commit until `release` is called. */
function heldCore(index: number): { core: Core; reached: Promise<void>; release(): void } {
  const { store } = instances[index] as StoreInstance;
  let reach!: () => void;
  let release!: () => void;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const metadata: MetadataStore = Object.create(store, {
    transact: {
      value: ((space, body, input, reads) => {
        const holding = async (tx: SpaceTransaction) => {
          const value = await body(tx, input as never);
          const isLookOnly = (value as { kind?: string }).kind === 'inspect';
          if (isLookOnly) return value;
          reach();
          await released;
          return value;
        };
        return store.transact(space, holding, undefined, reads);
      }) satisfies MetadataStore['transact'],
    },
    renewReadyLease: { value: undefined },
    findExpectedUpload: { value: undefined },
  });
  return { core: { ...core(index), metadata }, reached, release };
}

const stateOf = async (node: CanonicalNode) => (await core(0).metadata.findNode(SPACE, node.hash))?.state;

describe('a parent and its child, published at once', () => {
  async function publishHeld(first: CanonicalNode, second: CanonicalNode): Promise<void> {
    await bring(core(0), content, first);
    await bring(core(1), content, second);
    const held = heldCore(0);
    const publishing = leaseFor(held.core, first);
    await held.reached;
    const other = leaseFor(core(1), second);
    await Bun.sleep(50);
    held.release();
    await Promise.all([publishing, other]);
  }

  test('the parent first: the child finds its edge', async () => {
    const child = newNode();
    await publishHeld(newNode([child, child]), child);
    expect((await core(2).metadata.findNode(SPACE, child.hash))?.childRefCount).toBe(2);
  });

  test('the child first: the parent finds its row', async () => {
    const child = newNode();
    await publishHeld(child, newNode([child, child]));
    expect((await core(2).metadata.findNode(SPACE, child.hash))?.childRefCount).toBe(2);
  });

  test('many families at once, each from several processes', async () => {
    const families = Array.from({ length: 30 }, () => {
      const children = [newNode(), newNode(), newNode()];
      return [newNode(children), ...children, newNode([...children, children[0] as CanonicalNode])];
    });
    const members = families.flat();
    await Promise.all(members.map((node, index) => bring(core(index), content, node)));
    await Promise.all(members.map((node, index) => leaseFor(core(index * 7 + 1), node)));
    await Promise.all(members.map((node, index) => leaseFor(core(index), node)));
    for (const node of members) expect(await stateOf(node)).toBe('ready');
    for (const [, child] of families) {
      expect((await core(0).metadata.findNode(SPACE, child!.hash))?.childRefCount).toBe(3);
    }
  });

  test('a parent never becomes ready whose child is collected at the same time', async () => {
    for (let round = 0; round < 12; round += 1) {
      const child = newNode();
      const parent = newNode([child]);
      await publish(core(0), content, child);
      await endLeases();
      await bring(core(1), content, parent);
      const [answer] = await Promise.all([leaseFor(core(1), parent), runGc(core(2), SPACE, 10)]);
      const childState = await stateOf(child);
      if (answer.state === 'ready') expect(childState).toBe('ready');
      else expect(answer.state).toBe('validated_awaiting_children');
    }
  });
});

/** Ends every lease of the Space. No other process may use the Space meanwhile. */
async function endLeases(): Promise<void> {
  const { pool } = instances[0] as StoreInstance;
  await pool.run(
    'ending leases',
    'UPDATE nodes SET lease_due_at = 0, lease_expires_at = $1, fixed_sum = NULL, row_sum = NULL WHERE lease_expires_at > $1',
    [1],
  );
}

describe('collection', () => {
  const COUNT = 60;

  async function expiredNodes(): Promise<CanonicalNode[]> {
    const nodes = Array.from({ length: COUNT }, () => newNode());
    await Promise.all(nodes.map((node, index) => publish(core(index), content, node)));
    await endLeases();
    return nodes;
  }

  test('a lease that was answered is kept, whatever passes run', async () => {
    const nodes = await expiredNodes();
    const answers = await Promise.all([
      ...nodes.map((node, index) => leaseFor(core(index), node)),
      ...cores.map((each) => runGc(each, SPACE, COUNT)),
    ]);
    const leases = answers.slice(0, COUNT) as LeaseResponse[];
    for (const [index, answer] of leases.entries()) {
      const row = await core(0).metadata.findNode(SPACE, (nodes[index] as CanonicalNode).hash);
      if (answer.state === 'ready') {
        expect(row?.state).toBe('ready');
        expect(row?.leaseExpiresAt).toBeGreaterThanOrEqual(answer.leaseExpiresAt);
      } else {
        expect(answer.state).toBe('awaiting_upload');
        expect(row).toBeUndefined();
      }
    }
  });

  test('concurrent passes share the candidates, and exactly one reports each', async () => {
    const nodes = await expiredNodes();
    const passes = await Promise.all(cores.map((each) => runGc(each, SPACE, COUNT)));
    const sum = (field: 'examined' | 'deleted' | 'reclaimedContentBytes') =>
      passes.reduce((total, pass) => total + pass[field], 0);
    // A pass leaves nodes that another pass works on to it, so one more call takes any that remain.
    const rest = await runGc(core(0), SPACE, COUNT);
    expect(sum('deleted') + rest.deleted).toBe(COUNT);
    expect(sum('examined') + rest.examined).toBe(COUNT);
    for (const node of nodes) expect(await stateOf(node)).toBeUndefined();
    expect(content.generations.length).toBe(0);
  });

  test('sweeps, upkeep and renewals at once keep the counters', async () => {
    const nodes = await expiredNodes();
    const { pool } = instances[0] as StoreInstance;
    await pool.run(
      'ageing',
      'UPDATE nodes SET lease_due_at = 0, lease_expires_at = $1, fixed_sum = NULL, row_sum = NULL WHERE get_byte(hash, 0) % 2 = $2',
      [5, 0],
    );
    await Promise.all([
      ...nodes.map((node, index) => leaseFor(core(index), node, 60_000 + index)),
      ...cores.map((each) => sweep(each)),
      ...cores.map((each) => sweep(each)),
    ]);
    const counters = await core(1).metadata.readCounters(SPACE);
    expect(counters.leasedNodeCount).toBe(COUNT);
  });
});

describe('one hash, leased by all at once', () => {
  test('gets one upload generation, is published once and leased for the longest', async () => {
    for (let round = 0; round < 10; round += 1) {
      const node = newNode();
      const opened = await Promise.all([0, 1, 2, 0, 1, 2].map((index) => leaseFor(core(index), node)));
      const generations = new Set(
        opened.map((answer) => ('upload' in answer ? answer.upload.url.split('/')[1] : '')),
      );
      expect(generations.size).toBe(1);
      const [first] = opened;
      if (first === undefined || !('upload' in first)) throw new Error('no upload');
      expect(content.put(first.upload.url, node.bytes)).toBe(200);
      const ready = await Promise.all(
        [0, 1, 2, 0, 1, 2].map((index, order) => leaseFor(core(index), node, 60_000 + order * 1000)),
      );
      const row = await core(0).metadata.findNode(SPACE, node.hash);
      for (const answer of ready) {
        if (answer.state !== 'ready') throw new Error(answer.state);
        expect(row?.leaseExpiresAt).toBeGreaterThanOrEqual(answer.leaseExpiresAt);
      }
    }
  });
});

describe('commits', () => {
  const COUNT = 45;

  test('of one domain have revisions without a gap, and the balances are their sum', async () => {
    const nodes = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const node = newNode();
        await publish(core(0), content, node);
        return node;
      }),
    );
    const hashes = nodes.map(({ hash }) => hash).sort();
    const commits = await Promise.all(
      Array.from({ length: COUNT }, (_, index) =>
        updateRootRefs(core(index), SPACE, DOMAIN, {
          requestId: `request ${index}`,
          changes: hashes.filter((_hash, at) => (index + at) % 2 === 0).map((hash) => ({ hash, delta: 1 })),
        }),
      ),
    );
    const revisions = commits.map(({ revision }) => revision).sort((a, b) => a - b);
    expect(revisions).toEqual(Array.from({ length: COUNT }, (_, index) => index + 1));
    const { items, revision } = await listRootRefs(core(1), SPACE, DOMAIN, { limit: 50 });
    expect(revision).toBe(COUNT);
    expect(items.map(({ refCount }) => refCount)).toEqual(hashes.map((_, at) => (at % 2 === 0 ? 23 : 22)));
  });

  test('of several domains on the same nodes never lose a reference', async () => {
    const node = newNode();
    await publish(core(0), content, node);
    await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        updateRootRefs(core(index), SPACE, `domain${index % 6}`, {
          requestId: `${index}`,
          changes: [{ hash: node.hash, delta: index % 4 === 3 ? -1 : 2 }],
        }),
      ),
    );
    const row = await core(0).metadata.findNode(SPACE, node.hash);
    expect(row).toMatchObject({ rootRefCount: 45 * 2 - 15, heldDomainCount: 6 });
  });

  test('under one requestId are one commit, whoever sends it', async () => {
    const node = newNode();
    await publish(core(0), content, node);
    const request = { requestId: 'the same', changes: [{ hash: node.hash, delta: 1 }] };
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) => updateRootRefs(core(index), SPACE, DOMAIN, request)),
    );
    expect(answers.filter(({ idempotent }) => !idempotent).length).toBe(1);
    expect(new Set(answers.map(({ revision }) => revision)).size).toBe(1);
    const other = { requestId: 'the same', changes: [{ hash: node.hash, delta: 2 }] };
    const refusal = await updateRootRefs(core(1), SPACE, DOMAIN, other).catch((error) => error);
    expect((refusal as ApiError).code).toBe('IDEMPOTENCY_CONFLICT');
  });
});

describe('transactions that lock the same rows in opposite orders', () => {
  test('meet in a deadlock, and both succeed', async () => {
    const rows = [hashAt(1), hashAt(2)];
    await insertNodes(
      core(0).metadata,
      SPACE,
      rows.map((hash) => readyNode(hash)),
    );
    let runs = 0;
    let locked = 0;
    const bothLocked = Promise.withResolvers<void>();
    const bump = (index: number, order: readonly string[]) =>
      core(index).metadata.transact(SPACE, async (tx) => {
        runs += 1;
        for (const hash of order) {
          const row = await tx.findNode(hash);
          if (row === undefined) throw new Error('the row is there');
          await tx.update('node', row, { ...row, rootRefCount: row.rootRefCount + 1, heldDomainCount: 1 });
          // Each has its first row before it asks for the other's.
          locked += 1;
          if (locked === 2) bothLocked.resolve();
          await bothLocked.promise;
        }
      });
    await Promise.all([bump(0, rows), bump(1, rows.toReversed())]);
    expect(runs).toBeGreaterThan(2);
    for (const hash of rows) expect((await core(2).metadata.findNode(SPACE, hash))?.rootRefCount).toBe(2);
    await core(0).metadata.transact(SPACE, async (tx) => {
      for (const row of await tx.findNodes(rows)) if (row !== undefined) await tx.delete('node', row);
    });
  });
});

test('a process that writes the names of a Space again does not wait for one that holds them', async () => {
  await leaseFor(core(0), newNode());
  const { pool } = instances[1] as StoreInstance;
  await pool.lend(async (session) => {
    await session.script(
      'BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT FROM spaces FOR UPDATE',
    );
    try {
      expect(await leaseFor(core(2), newNode())).toHaveProperty('upload');
    } finally {
      await session.script('ROLLBACK');
    }
  });
}, 300_000);
