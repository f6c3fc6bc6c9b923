/**
 * Several processes change the packs of one Space concurrently, on a real PostgreSQL. After each test a recount by other statements
 * finds no fault.
 */
import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { until } from '../../../../../test/support/until.ts';
import { closeContentOf } from '../../../core/contents.ts';
import { removeNodesWithEdges } from '../../../core/edges.ts';
import type { UploadRules } from '../../../core/lease/upload-rules.ts';
import type { PackRow } from '../../../core/pack-model.ts';
import type { RecordMove } from '../../../core/pack-ports.ts';
import { beginPack, openPack } from '../../../core/packs/pack-decision.ts';
import { type GroupOutcome, publishGroup } from '../../../core/packs/publish-group.ts';
import type { MetadataStore } from '../../../core/ports.ts';
import { judgedPack, packedContent, placeIn } from '../../test/pack-samples.ts';
import { hashAt, newGeneration, openUpload, SPACE } from '../../test/samples.ts';
import { expectRecounted, openInstance, type StoreInstance, useProcesses } from '../test/postgres-fixture.ts';

const PROCESSES = 3;
const GROUP = 256;
const STORED_BYTES = 100;
const RULES: UploadRules = {
  ...{ uploads: 'direct', activeUploadsMax: 4_096, uploadTtlMs: 60_000 },
  ...{ isDiskFull: false, keepReplacedMs: 0 },
};

let url: string;
let instances: StoreInstance[];
let made = 0;

useProcesses(PROCESSES, {
  use(opened, itsUrl) {
    instances = opened;
    url = itsUrl;
  },
  check: expectRecounted,
});

const store = (index: number): MetadataStore => (instances[index % PROCESSES] as StoreInstance).store;
const sha = (text: string): string => createHash('sha256').update(text).digest('hex');

type JudgedRecord = Parameters<typeof publishGroup>[1]['records'][number];

interface BegunPack {
  readonly row: PackRow;
  readonly records: readonly JudgedRecord[];
}

/** A pack of `count` nodes, named by `name`, that is being judged. */
async function begin(
  name: string,
  count: number,
  childrenOf: (index: number) => readonly string[] = () => [],
): Promise<BegunPack> {
  made += 1;
  const wanted = {
    id: sha(`${made}`).slice(0, 32),
    fresh: newGeneration(),
    asked: new Uint8Array(32).fill(made),
  };
  const opening = await store(0).transact(SPACE, (tx) => openPack(tx, { ...wanted, rules: RULES }));
  if (opening.kind !== 'pack') throw new Error('a new pack was to be looked for');
  const row = opening.pack;
  const records = Array.from(
    { length: count },
    (_, index): JudgedRecord => ({
      ...{ index, hash: sha(`${name} ${index}`), size: 66, canonicalSize: 134, contentType: 'text/plain' },
      refs: Uint8Array.fromHex(childrenOf(index).join('')),
      place: placeIn(row.generation, 52 + index * (44 + STORED_BYTES), STORED_BYTES),
      integrity: new Uint8Array(43),
    }),
  );
  const hashes = Uint8Array.fromHex(records.map(({ hash }) => hash).join(''));
  const decision = await store(0).transact(SPACE, (tx) =>
    beginPack(tx, {
      ...{ id: row.id, generation: row.generation, bytes: 8 + count * (44 + STORED_BYTES), records },
      verdicts: { hashes, rejections: [], broken: undefined },
      ...{ hasRecords: count > 0, quotas: undefined, uploads: 'direct' },
    }),
  );
  expect(decision.kind).toBe('judging');
  return { row, records };
}

function publish(process: number, { row, records }: BegunPack, from: number): Promise<GroupOutcome> {
  return store(process).transact(SPACE, (tx) =>
    publishGroup(tx, {
      ...{ id: row.id, generation: row.generation, from, records: records.slice(from, from + GROUP) },
      ...{ isLast: from + GROUP >= records.length, durationMs: 60_000, ...RULES },
    }),
  );
}

async function publishAll(process: number, pack: BegunPack): Promise<readonly GroupOutcome['kind'][]> {
  const kinds: GroupOutcome['kind'][] = [];
  for (let from = 0; from < pack.records.length; from += GROUP)
    kinds.push((await publish(process, pack, from)).kind);
  return kinds;
}

/** Deletes rows as a collection does, whatever holds them. */
function collect(process: number, hashes: readonly string[]): Promise<number> {
  return store(process).transact(SPACE, async (tx) => {
    const rows = (await tx.findNodes(hashes)).flatMap((row) => (row === undefined ? [] : [row]));
    for (const row of rows) await closeContentOf(tx, row, RULES);
    await removeNodesWithEdges(tx, rows);
    return rows.length;
  });
}

test('a group of 256 is published in 3 round trips', async () => {
  const lone = await openInstance(url, { connectionsMax: 1 });
  const trips: number[] = [];
  const pack = await begin('trips', 3 * GROUP);
  for (let from = 0; from < pack.records.length; from += GROUP) {
    const before = lone.pool.counter.roundTrips;
    const { row, records } = pack;
    const outcome = await lone.store.transact(SPACE, (tx) =>
      publishGroup(tx, {
        ...{ id: row.id, generation: row.generation, from, records: records.slice(from, from + GROUP) },
        ...{ isLast: from + GROUP >= records.length, durationMs: 60_000, ...RULES },
      }),
    );
    expect(outcome.kind).toBe('leased');
    trips.push(lone.pool.counter.roundTrips - before);
  }
  expect(trips.at(-1)).toBe(3);
  const before = lone.pool.counter.roundTrips;
  const found = await lone.store.findNodesWithContent(
    SPACE,
    pack.records.map(({ hash }) => hash),
  );
  expect(found.every((each) => each?.content?.packed !== undefined)).toBe(true);
  expect(lone.pool.counter.roundTrips - before).toBe(1);
  await lone.close();
});

test('a pack puts a damaged row of one of its nodes right, and publishes the others', async () => {
  const before = await begin('healed', 2);
  await publishAll(0, before);
  const hash = before.records[0]?.hash ?? '';
  const { pool } = instances[0] as StoreInstance;
  await pool.run('spoiling', "UPDATE nodes SET size = 7, content_type = 'x/y' WHERE hash = $1", [
    `\\x${hash}`,
  ]);
  await expect((async () => store(0).findNode(SPACE, hash))()).rejects.toThrow('contradicts its sum');
  const pack = await begin('healed', 4, (index) => (index === 3 ? [hash] : []));
  const outcome = await publish(1, pack, 0);
  expect(outcome.kind === 'published' && outcome.outcomes.map(({ kind }) => kind)).toEqual(
    pack.records.map(() => 'ready'),
  );
  expect(await store(0).findNode(SPACE, hash)).toMatchObject({ size: 66, childRefCount: 1 });
}, 300_000);

describe('processes at once', () => {
  test('publish one pack: each group is published once', async () => {
    const pack = await begin('same', 2 * GROUP);
    const kinds = await Promise.all([0, 1, 2].map((process) => publishAll(process, pack)));
    for (const group of [0, 1]) {
      expect(kinds.map((each) => each[group]).sort()).toEqual(['leased', 'passed', 'passed']);
    }
    expect(await store(0).packs.findPack(SPACE, pack.row.id)).toMatchObject({
      ...{ state: 'judged', publishedCount: 2 * GROUP },
    });
  }, 300_000);

  test('publish packs with the same nodes: each node is live in one pack and dead in the others', async () => {
    const packs = [await begin('shared', GROUP), await begin('shared', GROUP), await begin('shared', GROUP)];
    await Promise.all(packs.map((pack, process) => publishAll(process, pack)));
    const uses = await store(0).transact(SPACE, (tx) =>
      Promise.all(packs.map(({ row }) => tx.packs.findUse(row.generation))),
    );
    expect(uses.map(({ liveRecords }) => liveRecords).sort()).toEqual([0, 0, GROUP]);
  }, 300_000);

  test('publish a parent and its children in different packs: they always find each other', async () => {
    for (let round = 0; round < 4; round += 1) {
      const children = await begin(`child ${round}`, 40);
      const hashes = children.records.map(({ hash }) => hash);
      const parents = await begin(`parent ${round}`, 40, (index) => hashes.slice(index, index + 8));
      await Promise.all([publishAll(1, children), publishAll(2, parents)]);
    }
  }, 300_000);

  test('collect, publish and move records of the same packs without a deadlock', async () => {
    const packs = [await begin('a', GROUP), await begin('b', GROUP), await begin('c', GROUP)];
    for (const pack of packs) await publishAll(0, pack);
    const all = packs.flatMap(({ records }) => records);
    // Each takes records of all packs.
    const taken = Array.from({ length: 8 }, (_, part) =>
      all.filter((_, index) => index % 16 === part).map(({ hash }) => hash),
    );
    const target = judgedPack({ bytes: 1_000_000 });
    const others = await begin('d', GROUP);
    const move = async () => {
      for (const { records } of packs.toReversed()) {
        const hashes = records.map(({ hash }) => hash);
        const rows = await store(1).findNodesWithContent(SPACE, hashes);
        const moves = rows.flatMap((found, index): RecordMove[] => {
          const { packed, generation } = found?.content ?? {};
          if (packed === undefined || generation === undefined || index % 3 !== 0) return [];
          const at =
            52 + (packs.findIndex(({ row }) => row.generation === packed.pack) * GROUP + index) * 200;
          const to = { ...packed, pack: target.generation, offset: at };
          return [{ generation, from: packed, to, integrity: new Uint8Array(1) }];
        });
        await store(1).transact(SPACE, async (tx) => {
          if ((await tx.packs.findPack(target.id)) === undefined) await tx.insert('pack', target);
          return tx.packs.moveRecords(moves);
        });
      }
    };
    const deadlocks = await countDeadlocks();
    // A transaction that has locked the first or the last pack waits for the one between, until all of them wait.
    const between = packs.map(({ row }) => row.generation).sort()[1] ?? '';
    const collections = await whileLocked(between, async () => {
      const begun = taken.map((hashes, part) => collect(part, hashes));
      await until(async () => (await countWaiting()) === taken.length);
      return begun;
    });
    await Promise.all([...collections, publishAll(2, others), move()]);
    expect(await countDeadlocks()).toBe(deadlocks);
    const left = await store(0).findNodesWithContent(
      SPACE,
      all.map(({ hash }) => hash),
    );
    expect(left.filter((each) => each !== undefined)).toHaveLength(all.length / 2);
    expect(left.filter((each) => each?.content?.packed?.pack === target.generation).length).toBeGreaterThan(
      0,
    );
  }, 300_000);

  test('count packs and uploads together against the limit of active uploads, exactly', async () => {
    const activeUploadsMax = 20;
    const rules = { ...RULES, activeUploadsMax };
    const asked = Array.from({ length: 40 }, (_, index) =>
      store(index).transact(SPACE, async (tx) => {
        if (index % 2 === 0) {
          const wanted = {
            id: newGeneration(),
            fresh: newGeneration(),
            asked: new Uint8Array(32).fill(index),
          };
          await openPack(tx, { ...wanted, rules });
          return 'opened';
        }
        if ((await tx.countActiveUploads(activeUploadsMax)) >= activeUploadsMax) throw new Error('full');
        await tx.insert('upload', openUpload(hashAt(index), { urlExpiresAt: tx.now + 60_000 }));
        return 'opened';
      }),
    );
    const settled = await Promise.allSettled(asked);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(activeUploadsMax);
  }, 300_000);
});

describe('a pack that another transaction changes between reading and commit', () => {
  test('makes the body run again, which reads it anew', async () => {
    const { row } = await begin('again', 1);
    let runs = 0;
    await store(0).transact(SPACE, async (tx) => {
      const before = await tx.packs.findPack(row.id);
      runs += 1;
      if (runs === 1) {
        await store(1).transact(SPACE, async (other) => {
          const read = await other.packs.findPack(row.id);
          if (read !== undefined) await other.update('pack', read, { ...read, publishedCount: 1 });
        });
      }
      if (before !== undefined) {
        await tx.update('pack', before, { ...before, touchedAt: before.touchedAt + 5 });
      }
    });
    expect(runs).toBe(2);
    const after = await store(0).packs.findPack(SPACE, row.id);
    expect(after).toMatchObject({ publishedCount: 1 });
  });

  test('is never discarded with a live record, and gets none once it is discarded', async () => {
    const pack = judgedPack();
    const insert = (packed: PackRow) =>
      store(0).transact(SPACE, (tx) => tx.insert('content', packedContent(placeIn(packed.generation, 52))));
    const discard = (packed: PackRow) =>
      store(1).transact(SPACE, async (tx) => {
        const before = await tx.packs.findPack(packed.id);
        if (before !== undefined) await tx.update('pack', before, { ...before, isDiscarded: true });
      });
    await store(0).transact(SPACE, (tx) => tx.insert('pack', pack));
    await discard(pack);
    await expect(insert(pack)).rejects.toThrow(/kept meeting others/);
    const live = judgedPack();
    await store(0).transact(SPACE, async (tx) => {
      await tx.insert('pack', live);
      await tx.insert('content', packedContent(placeIn(live.generation, 52)));
    });
    await expect(discard(live)).rejects.toThrow(/kept meeting others/);
    await store(0).transact(SPACE, async (tx) => {
      for (const { generation } of await store(0).page('packRecords', {
        space: SPACE,
        pack: live.generation,
        after: 0,
        limit: 10,
      })) {
        await tx.delete('content', generation);
      }
    });
  }, 300_000);

  test('a record whose place a transaction relies on is not moved before its commit', async () => {
    const { row, records } = await begin('held', 1);
    await publishAll(0, { row, records });
    const [found] = await store(0).findNodesWithContent(SPACE, [records[0]?.hash ?? '']);
    const { generation = '', packed } = found?.content ?? {};
    if (packed === undefined) throw new Error('the node is the record of a pack');
    const target = judgedPack();
    await store(0).transact(SPACE, (tx) => tx.insert('pack', target));
    let moved: Promise<number> | undefined;
    let isMoved = false;
    await store(0).transact(SPACE, async (tx) => {
      expect((await tx.findContent(generation))?.packed).toEqual(packed);
      const to = { ...packed, pack: target.generation };
      moved = store(1)
        .transact(SPACE, (other) =>
          other.packs.moveRecords([{ generation, from: packed, to, integrity: new Uint8Array(1) }]),
        )
        .finally(() => {
          isMoved = true;
        });
      await until(async () => (await countWaiting()) > 0);
      expect(isMoved).toBe(false);
    });
    expect(await moved).toBe(1);
  }, 300_000);
});

/** Another session has locked the row of the pack until `work` is done; what is under way then comes back. */
async function whileLocked<T>(generation: string, work: () => Promise<T[]>): Promise<T[]> {
  const holder = await openInstance(url, { connectionsMax: 1 });
  const begun = await holder.pool.lend(async (session) => {
    await session.script('BEGIN');
    await session.script(`SELECT 1 FROM packs WHERE generation = decode('${generation}', 'hex') FOR UPDATE`);
    try {
      return await work();
    } finally {
      await session.script('COMMIT');
    }
  });
  await holder.close();
  return begun;
}

async function ask(sql: string): Promise<number> {
  const { rows } = await (instances[2] as StoreInstance).pool.run('looking', sql, []);
  return rows[0]?.count as number;
}

const countDeadlocks = () =>
  ask('SELECT deadlocks AS count FROM pg_stat_database WHERE datname = current_database()');
const countWaiting = () =>
  ask(
    "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
