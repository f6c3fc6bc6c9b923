/**
 * The same row changes as a root-ref commit, hand-written: one process, one prepared statement per change, one
 * transaction with its own fsync per commit, no HTTP, no JSON, no authorization. Same schema, same pragmas as the engine.
 *
 * The rows that one commit of n deltas changes on both sides: the domain's revision, one row for the request, and per delta the
 * node's aggregate, the superseded balance kept as history, and the balance itself.
 */
import { Database } from 'bun:sqlite';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';

export interface CommitSpec {
  readonly path: string;
  /** hex; all are in the database */
  readonly hashes: readonly string[];
  readonly deltas: number;
  readonly seconds: number;
}

export interface CommitResult {
  readonly done: number;
  readonly elapsedMs: number;
  readonly cpuMs: number;
}

const MIGRATIONS = join(import.meta.dir, '..', '..', 'packages', 'server', 'engine', 'sqlite', 'migrations');
const SPACE = 1;
const DOMAIN = 1;
/** As engine/sqlite/database.ts sets them. */
const PRAGMAS = [
  'journal_mode = WAL',
  'synchronous = FULL',
  'temp_store = MEMORY',
  'cache_size = -32768',
  'wal_autocheckpoint = 4000',
  'journal_size_limit = 67108864',
];

function open(path: string): Database {
  const database = new Database(path, { create: true });
  for (const pragma of PRAGMAS) database.run(`PRAGMA ${pragma}`);
  return database;
}

/** A database of the engine's schema with these nodes, ready, each with a balance of 1. */
export function createCommitDatabase(path: string, hashes: readonly string[]): void {
  const database = open(path);
  for (const file of readdirSync(MIGRATIONS).sort())
    database.run(readFileSync(join(MIGRATIONS, file), 'utf8'));
  const insertNode = database.prepare(
    `INSERT INTO nodes (space, hash, state, size, canonical_size, content_type, refs, generation, storage, lease_started_at,
       lease_expires_at, child_ref_count, root_ref_count, held_domain_count, waiting_touched_at, collectable)
     VALUES (?1, ?2, 1, 4096, 4144, 'application/octet-stream', x'', randomblob(16), 1, 1, ?3, 0, 1, 1, 0, 0)`,
  );
  const insertBalance = database.prepare(
    'INSERT INTO balances (domain, hash, balance, from_revision) VALUES (?1, ?2, 1, 1)',
  );
  database.transaction(() => {
    database.run("INSERT INTO spaces (id, app_id, space_id) VALUES (1, 'bench', 'bench')");
    database.run("INSERT INTO domains (id, space, domain, revision) VALUES (1, 1, 'bench', 1)");
    for (const hash of hashes) {
      const key = Buffer.from(hash, 'hex');
      insertNode.run(SPACE, key, Date.now() + LEASE_DURATION_MS_MAX);
      insertBalance.run(DOMAIN, key);
    }
  })();
  database.close();
}

/** Commits one after another for `seconds`. Throws when a change does not find its row. */
export function runCommits(spec: CommitSpec): CommitResult {
  const database = open(spec.path);
  const sql = prepareCommit(database);
  // In key order, so that neighbours in the trees are changed together: faster here, and what the engine does.
  const keys = [...spec.hashes].sort().map((hash) => Buffer.from(hash, 'hex'));
  const digest = new Uint8Array(32).fill(7);
  const run = randomUUID();
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + spec.seconds * 1000;
  let done = 0;
  let next = 0;
  while (performance.now() < endsAt) {
    const now = Date.now();
    sql.begin.run();
    const { revision } = sql.advance.get(DOMAIN) as { revision: number };
    sql.insertCommit.run(DOMAIN, `${run}-${done}`, digest, revision);
    for (let index = 0; index < spec.deltas; index++) {
      const key = keys[next++ % keys.length] as Buffer;
      const { changes } = sql.updateNode.run(SPACE, key);
      const old = sql.findBalance.get(DOMAIN, key) as { balance: number; from_revision: number } | null;
      if (changes !== 1 || old === null) throw new Error('A hand-written commit missed its node.');
      sql.keepHistory.run(DOMAIN, key, old.from_revision, revision, old.balance, now);
      sql.updateBalance.run(DOMAIN, key, old.balance + 1, revision);
    }
    sql.commit.run();
    done += 1;
  }
  const elapsedMs = performance.now() - startedAt;
  const cpu = process.cpuUsage(cpuBefore);
  database.close();
  return { done, elapsedMs, cpuMs: (cpu.user + cpu.system) / 1000 };
}

function prepareCommit(database: Database) {
  return {
    begin: database.prepare('BEGIN IMMEDIATE'),
    commit: database.prepare('COMMIT'),
    advance: database.prepare('UPDATE domains SET revision = revision + 1 WHERE id = ?1 RETURNING revision'),
    insertCommit: database.prepare(
      'INSERT INTO root_ref_commits (domain, request_id, payload_digest, revision, request_key) VALUES (?1, ?2, ?3, ?4, ?4)',
    ),
    updateNode: database.prepare(
      'UPDATE nodes SET root_ref_count = root_ref_count + 1 WHERE space = ?1 AND hash = ?2 AND state = 1',
    ),
    findBalance: database.prepare(
      'SELECT balance, from_revision FROM balances WHERE domain = ?1 AND hash = ?2',
    ),
    keepHistory: database.prepare(
      'INSERT INTO balance_history (domain, hash, from_revision, to_revision, balance, superseded_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)',
    ),
    updateBalance: database.prepare(
      'UPDATE balances SET balance = ?3, from_revision = ?4 WHERE domain = ?1 AND hash = ?2',
    ),
  };
}
