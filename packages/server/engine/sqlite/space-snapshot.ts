/** core/inspection-ports.ts SpaceSnapshot on SQLite: a read transaction on a connection of its own. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import type {
  ContentFacts,
  FinishedUpload,
  InspectedBalance,
  InspectedDomain,
  InspectedNode,
  InspectedPack,
  KeptCounters,
  NodesAround,
  SpaceSnapshot,
} from '../../core/inspection-ports.ts';
import type { NodeRow, Space } from '../../core/model.ts';
import type { PackId } from '../../core/pack-model.ts';
import { isDamage } from '../../core/store-failure.ts';
import { guardNow } from '../local-failure.ts';
import { keptFromSql } from '../rows/codecs.ts';
import { openReader } from './database.ts';
import { isBalanceSound, isDomainSound, looseEdgesFromSql } from './ledger-rows.ts';
import { assertSchema } from './migrations.ts';
import {
  balanceFromSql,
  bytesToHex,
  damagedRow,
  hexToBytes,
  inspectedPackFromSql,
  joinedContentFromSql,
  nodeFromSql,
  uploadFromSql,
} from './rows.ts';
import { DOMAIN_COLUMNS, JOINED_NODE_COLUMNS, NO_SPACE, type SqlRow, UPLOAD_COLUMNS } from './statements.ts';

const INSPECTED = `SELECT ${JOINED_NODE_COLUMNS}, contents.generation AS content_generation,
    contents.space AS content_space, contents.canonical_size AS content_canonical_size,
    contents.pack, contents.pack_offset, contents.stored_length, contents.codec,
    contents.url_expires_at, contents.integrity, contents.row_sum AS content_row_sum,
    length(contents.inline_bytes) AS inline_length
  FROM nodes LEFT JOIN contents ON contents.generation = nodes.generation AND contents.space = nodes.space
  WHERE nodes.space = ?1`;

/** `?1` is the Space's integer id, except for the first. */
const SQL = {
  findSpaceId: 'SELECT id FROM spaces WHERE app_id = ?1 AND space_id = ?2',
  counters: 'SELECT * FROM spaces WHERE id = ?1',
  node: `SELECT ${JOINED_NODE_COLUMNS} FROM nodes WHERE space = ?1 AND hash = ?2`,
  nodes: `${INSPECTED} AND nodes.hash > ?2 ORDER BY nodes.hash LIMIT ?3`,
  inspected: `${INSPECTED} AND nodes.hash = ?2`,
  /** from the pages of the index alone: those of the rows may be damaged */
  hashes: `SELECT hash FROM nodes INDEXED BY nodes_by_lease
    WHERE space = ?1 AND hash > ?2 ORDER BY hash LIMIT ?3`,
  uploads: `SELECT space, ${UPLOAD_COLUMNS} FROM uploads
    WHERE space = ?1 AND verdict = 1 AND hash > ?2 ORDER BY hash LIMIT ?3`,
  looseEdges:
    'SELECT space, hash, count, row_sum FROM loose_edges WHERE space = ?1 AND hash > ?2 ORDER BY hash LIMIT ?3',
  domains: `SELECT known.*,
      (SELECT count(*) FROM root_ref_commits AS c WHERE c.domain = known.id AND c.revision > floor) AS commits,
      (SELECT coalesce(max(revision), 0) FROM root_ref_commits AS c WHERE c.domain = known.id) AS last_revision
    FROM (SELECT ${DOMAIN_COLUMNS}, CASE WHEN history_floor > 1 THEN history_floor ELSE 0 END AS floor
      FROM domains WHERE space = ?1) AS known ORDER BY domain`,
  packs: `SELECT id, generation, live_records, live_bytes,
      (SELECT count(*) FROM contents WHERE pack = packs.generation) AS counted_records,
      (SELECT total(stored_length) FROM contents WHERE pack = packs.generation) AS counted_bytes
    FROM packs WHERE space = ?1 AND id > ?2 ORDER BY id LIMIT ?3`,
  /** ?2 domain, ?3 after, ?4 limit */
  balances: `SELECT domain, hash, balance, from_revision, row_sum,
      (SELECT coalesce(max(to_revision), 0) FROM balance_history
        WHERE balance_history.domain = balances.domain AND balance_history.hash = balances.hash) AS history_end
    FROM balances WHERE domain = (SELECT id FROM domains WHERE space = ?1 AND domain = ?2) AND hash > ?3
    ORDER BY hash LIMIT ?4`,
  balancesOf: `SELECT domains.domain, balances.balance FROM domains
    JOIN balances ON balances.domain = domains.id AND balances.hash = ?2
    WHERE domains.space = ?1 ORDER BY domains.domain`,
} as const;

/** `path`: the database file. The snapshot is of the moment of its first read. */
export async function inspectSpace<T>(
  path: string,
  space: Space,
  now: number,
  work: (snapshot: SpaceSnapshot) => Promise<T>,
): Promise<T> {
  // The cache is small, because pages are read once.
  using database = openReader(path, 4 * 1024 * 1024);
  // A read transaction ends with its connection.
  database.run('BEGIN');
  guardNow('reading the schema of the rows', () => assertSchema(database));
  return await work(new SqliteSpaceSnapshot(database, space, now));
}

class SqliteSpaceSnapshot implements SpaceSnapshot {
  readonly now: number;
  readonly #database: Database;
  readonly #id: number;
  readonly #watermark: number;

  constructor(database: Database, { appId, spaceId }: Space, now: number) {
    this.now = now;
    this.#database = database;
    this.#id = (this.#all('findSpaceId', appId, spaceId)[0]?.id as number | undefined) ?? NO_SPACE;
    this.#watermark = (this.#all('counters', this.#id)[0]?.lease_watermark as number | undefined) ?? 0;
  }

  findNode(hash: Hash): NodeRow | undefined {
    const [row] = this.#all('node', this.#id, hexToBytes(hash));
    return row && nodeFromSql(row);
  }

  async readNodes(after: Hash | undefined, limit: number): Promise<readonly InspectedNode[]> {
    // Reading blocks the process: requests go between two pages.
    await new Promise((resolve) => setImmediate(resolve));
    const rows = this.#all('nodes', this.#id, hexToBytes(after ?? ''), limit);
    return rows.map((row) => this.#inspectedOf(row));
  }

  readUploads(after: Hash | undefined, limit: number): FinishedUpload[] {
    return this.#all('uploads', this.#id, hexToBytes(after ?? ''), limit).flatMap((row) => {
      const { hash, generation, evidence } = uploadFromSql(row);
      return evidence?.verdict === 'good' ? [{ hash, generation, ...evidence }] : [];
    });
  }

  readLooseEdges(after: Hash | undefined, limit: number): { hash: Hash; count: number }[] {
    return this.#all('looseEdges', this.#id, hexToBytes(after ?? ''), limit).map(looseEdgesFromSql);
  }

  readDomains(): InspectedDomain[] {
    return this.#whole('domains', isDomainSound, this.#id).map((row) => ({
      domain: row.domain as string,
      revision: row.revision as number,
      historyFloor: row.floor as number,
      commits: row.commits as number,
      lastRevision: row.last_revision as number,
    }));
  }

  readBalances(domain: string, after: Hash | undefined, limit: number): InspectedBalance[] {
    const rows = this.#whole('balances', isBalanceSound, this.#id, domain, hexToBytes(after ?? ''), limit);
    return rows.map((row) => ({ ...balanceFromSql(row), historyEnd: row.history_end as number }));
  }

  findBalancesOf(hash: Hash): { domain: string; balance: number }[] {
    return this.#all('balancesOf', this.#id, hexToBytes(hash)).map((row) => ({
      domain: row.domain as string,
      balance: row.balance as number,
    }));
  }

  readPacks(after: PackId | undefined, limit: number): InspectedPack[] {
    return this.#all('packs', this.#id, hexToBytes(after ?? ''), limit).map(inspectedPackFromSql);
  }

  readKeptCounters(): KeptCounters {
    return keptFromSql(this.#all('counters', this.#id)[0]);
  }

  async readNodesAround(after: Hash | undefined, limit: number): Promise<NodesAround> {
    try {
      const nodes = await this.readNodes(after, limit);
      return { nodes, unreadable: [], next: nodes.length < limit ? undefined : nodes.at(-1)?.row.hash };
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    const hashes = this.#all('hashes', this.#id, hexToBytes(after ?? ''), limit);
    const nodes: InspectedNode[] = [];
    const unreadable: NodesAround['unreadable'][number][] = [];
    for (const found of hashes) {
      const hash = found.hash as Uint8Array;
      try {
        nodes.push(...this.#all('inspected', this.#id, hash).map((row) => this.#inspectedOf(row)));
      } catch (error) {
        if (!isDamage(error)) throw error;
        unreadable.push({ hash: bytesToHex(hash), reason: (error as Error).message });
      }
    }
    const last = hashes.length < limit ? undefined : (hashes.at(-1)?.hash as Uint8Array);
    return { nodes, unreadable, next: last && bytesToHex(last) };
  }

  #inspectedOf(found: SqlRow): InspectedNode {
    const row = nodeFromSql(found);
    return { row, isLeaseCounted: row.leaseExpiresAt > this.#watermark, content: contentOf(found) };
  }

  /** @throws StoreUnavailable, as damage, if one of them is not as it was written */
  #whole(
    statement: keyof typeof SQL,
    isSound: (row: SqlRow) => boolean,
    ...values: SQLQueryBindings[]
  ): SqlRow[] {
    const rows = this.#all(statement, ...values);
    if (!rows.every(isSound)) throw damagedRow('a root ref', 'in one of its domains');
    return rows;
  }

  #all(statement: keyof typeof SQL, ...values: SQLQueryBindings[]): SqlRow[] {
    const query = () => this.#database.query<SqlRow, SQLQueryBindings[]>(SQL[statement]).all(...values);
    return guardNow('inspecting', query);
  }
}

function contentOf(row: SqlRow): ContentFacts | undefined {
  const content = joinedContentFromSql(row, row.content_space as number);
  return content && { ...content, inlineLength: (row.inline_length as number | null) ?? undefined };
}
