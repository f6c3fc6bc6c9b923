/** SQL for copying a whole deployment (engine/transfer-ports.ts); servers do not run it. */
import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite';
import { CONTENT_COLUMNS } from './packs/pack-statements.ts';
import type { SqlRow } from './statements.ts';
import {
  DOMAIN_COLUMNS,
  JOINED_CONTENT_COLUMNS,
  JOINED_NODE_COLUMNS,
  SET_STORE_VALUE,
  UPLOAD_COLUMNS,
  WRITE_STATEMENTS,
} from './statements.ts';

const DOMAIN = '(SELECT id FROM domains WHERE space = ?1 AND domain = ?2)';

const { begin, commit, rollback, sealSpace, findWatermark, addCounters, setLooseEdges } = WRITE_STATEMENTS;
const { insertNode, insertUpload, sealDomain, insertBalance, insertHistory } = WRITE_STATEMENTS;

/** `?1` is the Space's integer id, `?2` the domain where there is one. Pages begin with the key they are given. Request ids travel as bytes: they may hold anything. */
const SQL = {
  ...{ begin, commit, rollback, sealSpace, findWatermark, addCounters, setLooseEdges },
  ...{ insertNode, insertUpload, sealDomain, insertBalance, insertHistory },

  /** ?1 name */
  findMark: 'SELECT value FROM store WHERE name = ?1',
  setMark: SET_STORE_VALUE,
  removeMark: 'DELETE FROM store WHERE name = ?1',

  readTotals:
    'SELECT count(*) AS spaces, total(node_count) AS nodes, total(ready_stored_bytes + waiting_bytes) AS bytes FROM spaces',
  listSpaces: 'SELECT id, app_id, space_id, name_sum FROM spaces WHERE id > ?1 ORDER BY id LIMIT ?2',
  findSpaceId: 'SELECT id, name_sum FROM spaces WHERE app_id = ?1 AND space_id = ?2',

  nodes: `SELECT ${JOINED_NODE_COLUMNS}, ${JOINED_CONTENT_COLUMNS} FROM nodes LEFT JOIN contents ON contents.generation = nodes.generation WHERE nodes.space = ?1 AND nodes.hash >= ?2 ORDER BY nodes.hash LIMIT ?3`,
  looseEdges:
    'SELECT space, hash, count, row_sum FROM loose_edges WHERE space = ?1 AND hash >= ?2 ORDER BY hash LIMIT ?3',
  uploads: `SELECT space, ${UPLOAD_COLUMNS} FROM uploads WHERE space = ?1 AND hash >= ?2 ORDER BY hash LIMIT ?3`,
  /** ?1 generation */
  findContent: `SELECT ${CONTENT_COLUMNS} FROM contents WHERE generation = ?1`,
  domains: `SELECT ${DOMAIN_COLUMNS} FROM domains WHERE space = ?1 AND domain >= ?2 ORDER BY domain LIMIT ?3`,
  balances: `SELECT domain, hash, balance, from_revision, row_sum FROM balances WHERE domain = ${DOMAIN} AND hash >= ?3 ORDER BY hash LIMIT ?4`,
  history: `SELECT domain, hash, from_revision, to_revision, balance, superseded_at, row_sum FROM balance_history WHERE domain = ${DOMAIN} AND (hash, from_revision) > (?3, ?4) ORDER BY hash, from_revision LIMIT ?5`,
  commits: `SELECT domain, CAST(request_id AS BLOB) AS request_bytes, request_id, payload_digest, revision, row_sum FROM root_ref_commits WHERE domain = ${DOMAIN} AND request_id >= CAST(?3 AS TEXT) ORDER BY request_id LIMIT ?4`,

  insertSpace:
    'INSERT INTO spaces (app_id, space_id, lease_watermark) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING RETURNING id',
  /** A generation that has content already is refused. */
  insertContent:
    'INSERT INTO contents (generation, space, canonical_size, integrity, inline_bytes, url_expires_at, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)',
  insertDomain:
    'INSERT INTO domains (space, domain, revision, history_floor) VALUES (?1, ?2, ?3, ?4) RETURNING id',
  findDomainId: 'SELECT id FROM domains WHERE space = ?1 AND domain = ?2',
  insertCommit:
    'INSERT INTO root_ref_commits (domain, request_id, payload_digest, revision, request_key, row_sum) VALUES (?1, CAST(?2 AS TEXT), ?3, ?4, ?5, ?6)',
  countBalances:
    'UPDATE domains SET balance_count = balance_count + ?2, row_sum = row_sum + ?3 WHERE id = ?1',
  countCommits: 'UPDATE domains SET commit_count = commit_count + ?2, row_sum = row_sum + ?3 WHERE id = ?1',
} as const;

export type DeploymentStatements = {
  readonly [Name in keyof typeof SQL]: Statement<SqlRow, SQLQueryBindings[]>;
};

export function prepareDeploymentStatements(database: Database): DeploymentStatements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)] as const);
  return Object.fromEntries(prepared) as DeploymentStatements;
}
