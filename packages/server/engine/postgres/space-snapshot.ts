/** core/inspection-ports.ts SpaceSnapshot on PostgreSQL: one read-only transaction that sees one instant. */
import type { Hash } from '@holdfast/protocol';
import type {
  FinishedUpload,
  InspectedBalance,
  InspectedDomain,
  InspectedNode,
  InspectedPack,
  KeptCounters,
  NodesAround,
  SpaceSnapshot,
} from '../../core/inspection-ports.ts';
import type { ContentRow, NodeRow, SpaceKey } from '../../core/model.ts';
import type { PackId } from '../../core/pack-model.ts';
import { isDamage } from '../../core/store-failure.ts';
import { keptFromSql } from '../rows/codecs.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { COUNTER_SUMS } from './counter-statements.ts';
import { LocatedDamage, locateDamage, RowDamaged } from './damage.ts';
import { guard } from './failure.ts';
import { PLACE_COLUMNS, withContent } from './packs/pack-statements.ts';
import {
  inspectedPackFromSql,
  isContentProven,
  nodeFromSql,
  placeFromSql,
  readNode,
  unprovenBalance,
} from './rows.ts';
import { columnsOf } from './sql-fragments.ts';
import { NODE_COLUMNS } from './statements.ts';
import type { PostgresConnection } from './wire/connection.ts';
import { byteaToBytes, byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/wire-messages.ts';

/**
 * By index alone: a page that is damaged must fail only those who need a row of it. It holds no lock, so it may be idle for long: on a
 * busy machine the count of one page of rows takes seconds.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
  SET LOCAL idle_in_transaction_session_timeout = '5min'`;
const SAVEPOINT = 'SAVEPOINT page';

/** `$1` is the Space. */
const INSPECTED = `SELECT ${columnsOf('nodes', NODE_COLUMNS)}, contents.generation AS found_generation,
      contents.canonical_size AS found_size, octet_length(contents.inline_bytes) AS inline_length,
      ${columnsOf('contents', PLACE_COLUMNS)}, contents.url_expires_at, contents.integrity AS found_integrity,
      contents.row_sum AS content_sum, contents.place_sum
    FROM nodes ${withContent()}
    WHERE nodes.space = $1 AND nodes.hash > $2`;

const SQL = {
  now: `SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now`,
  counters: `SELECT ${COUNTER_SUMS} FROM usage_counters WHERE space = $1`,
  node: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND hash = $2`,
  nodes: `${INSPECTED} ORDER BY nodes.hash LIMIT $3::bigint`,
  nodesBefore: `${INSPECTED} AND nodes.hash < $4 ORDER BY nodes.hash LIMIT $3::bigint`,
  uploads: `SELECT hash, generation, canonical_size, integrity, inline FROM uploads
    WHERE space = $1 AND verdict = 1 AND hash > $2 ORDER BY hash LIMIT $3::bigint`,
  looseEdges:
    'SELECT hash, count FROM loose_edges WHERE space = $1 AND hash > $2 AND count > 0 ORDER BY hash LIMIT $3::bigint',
  domains: `SELECT domain, revision, CASE WHEN history_floor > 1 THEN history_floor ELSE 0 END AS history_floor
    FROM domains WHERE space = $1 ORDER BY domain`,
  /** $2 and $3 after which domain and request, $4 limit */
  commits: `SELECT domain, request_id, revision FROM root_ref_commits
    WHERE space = $1 AND (domain, request_id) > ($2::text COLLATE "C", $3::bytea) ORDER BY domain, request_id LIMIT $4::bigint`,
  packs: `SELECT id, generation, live_records, live_bytes, counted_records, counted_bytes
    FROM packs CROSS JOIN LATERAL (SELECT count(*) AS counted_records, coalesce(sum(stored_length), 0)::bigint AS counted_bytes
      FROM contents WHERE contents.space = packs.space AND contents.pack = packs.generation) AS counted
    WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3::bigint`,
  /** $2 domain, $3 after, $4 limit */
  balances: `SELECT hash, balance, from_revision, (SELECT coalesce(max(to_revision), 0) FROM balance_history AS h
        WHERE h.space = balances.space AND h.domain = balances.domain AND h.hash = balances.hash) AS history_end
    FROM balances WHERE space = $1 AND domain = $2 AND hash > $3 ORDER BY hash LIMIT $4::bigint`,
  balancesOf: `SELECT domains.domain, balances.balance FROM domains JOIN balances
      ON balances.space = domains.space AND balances.domain = domains.domain AND balances.hash = $2
    WHERE domains.space = $1 ORDER BY domains.domain`,
} as const;

/** `clock`: an instant that takes the place of the database's clock. */
export async function inspectSpace<T>(
  connection: PostgresConnection,
  space: SpaceKey,
  clock: number | null,
  work: (snapshot: SpaceSnapshot) => Promise<T>,
): Promise<T> {
  await connection.script(BEGIN);
  try {
    const { rows } = await connection.query(SQL.now, [clock]);
    return await work(new PostgresSpaceSnapshot(connection, space, rows[0]?.now as number));
  } catch (error) {
    if (!isDamage(error)) throw error;
    await connection.rollback();
    throw await locateDamage(connection, error);
  } finally {
    await connection.rollback();
  }
}

class PostgresSpaceSnapshot implements SpaceSnapshot {
  readonly now: number;
  readonly #connection: PostgresConnection;
  readonly #space: SpaceKey;

  constructor(connection: PostgresConnection, space: SpaceKey, now: number) {
    this.now = now;
    this.#connection = connection;
    this.#space = space;
  }

  async findNode(hash: Hash): Promise<NodeRow | undefined> {
    const [row] = await this.#all('node', hexToBytea(hash));
    return row && nodeFromSql(this.#space, row);
  }

  async readNodes(after: Hash | undefined, limit: number): Promise<readonly InspectedNode[]> {
    const rows = await this.#all('nodes', hexToBytea(after ?? ''), limit);
    return rows.map((row) => inspectedFromSql(this.#space, row).node);
  }

  /** A row that contradicts its sum is not believed: it counts as one that cannot be read. */
  #believe(rows: readonly SqlRow[]): Omit<NodesAround, 'next'> {
    const nodes: InspectedNode[] = [];
    const unreadable: NodesAround['unreadable'][number][] = [];
    for (const row of rows) {
      try {
        const { node, isProven } = inspectedFromSql(this.#space, row);
        const { hash } = node.row;
        if (isProven) nodes.push(node);
        else unreadable.push({ hash, reason: new RowDamaged('nodes', `node ${hash}`).message, node });
      } catch (error) {
        if (!(error instanceof RowDamaged)) throw error;
        unreadable.push({ hash: byteaToHex(row.hash), reason: error.message });
      }
    }
    return { nodes, unreadable };
  }

  async readNodesAround(after: Hash | undefined, limit: number): Promise<NodesAround> {
    await this.#connection.query(SAVEPOINT);
    try {
      const rows = await this.#all('nodes', hexToBytea(after ?? ''), limit);
      const next = rows.length < limit ? undefined : byteaToHex(rows.at(-1)?.hash);
      return { ...this.#believe(rows), next };
    } catch (error) {
      if (!isDamage(error)) throw error;
      await this.#connection.query('ROLLBACK TO SAVEPOINT page');
      return this.#readBeforeDamage(after, limit, await locateDamage(this.#connection, error));
    }
  }

  /** The page up to the first row that cannot be read; that lies within `limit` rows. */
  async #readBeforeDamage(after: Hash | undefined, limit: number, damage: unknown): Promise<NodesAround> {
    // Through a damaged index no row after it is reached.
    if (damage instanceof LocatedDamage && damage.isIndex) throw damage;
    const { rows } = await this.#connection.script(findUnreadable(this.#space, after ?? '', limit));
    const hash = rows[0]?.hash as Hash;
    if (hash === AFTER_ALL) throw damage;
    const found = await this.#all('nodesBefore', hexToBytea(after ?? ''), limit, hexToBytea(hash));
    const reason = (damage as Error).message;
    const { nodes, unreadable } = this.#believe(found);
    return { nodes, unreadable: [...unreadable, { hash, reason }], next: hash };
  }

  async readUploads(after: Hash | undefined, limit: number): Promise<FinishedUpload[]> {
    const rows = await this.#all('uploads', hexToBytea(after ?? ''), limit);
    return rows.map((row) => ({
      hash: byteaToHex(row.hash),
      generation: byteaToHex(row.generation),
      canonicalSize: row.canonical_size as number,
      inline: row.inline as boolean,
      integrity: byteaToBytes(row.integrity),
    }));
  }

  async readLooseEdges(after: Hash | undefined, limit: number): Promise<{ hash: Hash; count: number }[]> {
    const rows = await this.#all('looseEdges', hexToBytea(after ?? ''), limit);
    return rows.map((row) => ({ hash: byteaToHex(row.hash), count: row.count as number }));
  }

  /** Commits are read in pages: no statement counts those of a large domain in its time. */
  async readDomains(): Promise<InspectedDomain[]> {
    const found = (await this.#all('domains')).map((row) => ({
      domain: row.domain as string,
      revision: row.revision as number,
      historyFloor: row.history_floor as number,
      commits: 0,
      lastRevision: 0,
    }));
    const known = new Map(found.map((each) => [each.domain, each]));
    for (let after: SqlValue[] = ['', '\\x']; ; ) {
      const rows = await this.#all('commits', ...after, ROWS_PER_STATEMENT);
      for (const { domain, revision } of rows as readonly { domain: string; revision: number }[]) {
        const each = known.get(domain);
        if (each === undefined) continue;
        if (revision > each.historyFloor) each.commits += 1;
        each.lastRevision = Math.max(each.lastRevision, revision);
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < ROWS_PER_STATEMENT) return found;
      after = [last.domain as string, last.request_id as string];
    }
  }

  async readBalances(domain: string, after: Hash | undefined, limit: number): Promise<InspectedBalance[]> {
    const rows = await this.#all('balances', domain, hexToBytea(after ?? ''), limit);
    return rows.map((row) => ({ ...unprovenBalance(row), historyEnd: row.history_end as number }));
  }

  async findBalancesOf(hash: Hash): Promise<{ domain: string; balance: number }[]> {
    return (await this.#all('balancesOf', hexToBytea(hash))).map((row) => ({
      domain: row.domain as string,
      balance: row.balance as number,
    }));
  }

  async readPacks(after: PackId | undefined, limit: number): Promise<InspectedPack[]> {
    return (await this.#all('packs', hexToBytea(after ?? ''), limit)).map(inspectedPackFromSql);
  }

  async readKeptCounters(): Promise<KeptCounters> {
    return keptFromSql((await this.#all('counters'))[0]);
  }

  async #all(statement: keyof typeof SQL, ...values: SqlValue[]): Promise<readonly SqlRow[]> {
    const query = () => this.#connection.query(SQL[statement], [this.#space, ...values]);
    return (await guard('inspecting', query)).rows;
  }
}

/** A row in which only a count is wrong still has its edges. @throws RowDamaged */
function inspectedFromSql(space: SpaceKey, found: SqlRow): { node: InspectedNode; isProven: boolean } {
  const { row, isLeaseCounted, isFixedProven, isProven } = readNode(space, found);
  if (!isFixedProven) throw new RowDamaged('nodes', `node ${row.hash}`);
  return { node: { row, isLeaseCounted, content: contentFactsFromSql(space, found) }, isProven };
}

/** A record that is damaged is none: it proves no byte. */
function contentFactsFromSql(space: SpaceKey, row: SqlRow): InspectedNode['content'] {
  if (row.found_generation === null) return undefined;
  const inlineLength = (row.inline_length as number | null) ?? undefined;
  const content = {
    generation: byteaToHex(row.found_generation),
    canonicalSize: row.found_size as number,
    packed: placeFromSql(row),
  };
  const sums = { row_sum: row.content_sum, place_sum: row.place_sum };
  const whole: ContentRow = {
    ...content,
    integrity: byteaToBytes(row.found_integrity),
    inlineBytes: inlineLength === undefined ? undefined : NO_BYTES,
    urlExpiresAt: row.url_expires_at as number,
  };
  if (!isContentProven(space, sums, whole)) return undefined;
  return { ...content, inlineLength, integrity: inlineLength === undefined ? whole.integrity : NO_BYTES };
}

const NO_BYTES = new Uint8Array(0);
/** No node has this hash. */
const AFTER_ALL = 'f'.repeat(64);

/** Finds the first unreadable node, bit by bit, in 256 reads on the server. Long values are read whole: they have pages of their own. */
const findUnreadable = (space: SpaceKey, after: string, limit: number): string => `DO $find$
  DECLARE readable bytea := '\\x${after}'; found bytea := '\\x${AFTER_ALL}'; tried bytea;
  BEGIN
    FOR place IN 0 .. 255 LOOP
      tried := set_bit(found, place - place % 8 + 7 - place % 8, 0);
      BEGIN
        PERFORM sum(page.bytes) FROM (
          SELECT octet_length(nodes.refs || '') + octet_length(nodes.content_type || '')
            + coalesce(octet_length(contents.integrity || ''), 0) AS bytes
          FROM nodes LEFT JOIN contents ON contents.space = nodes.space AND contents.generation = nodes.generation
          WHERE nodes.space = '${space}' AND nodes.hash > readable AND nodes.hash <= tried
          ORDER BY nodes.hash LIMIT ${limit}) AS page;
        readable := greatest(readable, tried);
      EXCEPTION WHEN data_corrupted OR index_corrupted THEN found := tried;
      END;
    END LOOP;
    PERFORM set_config('holdfast.unreadable', encode(found, 'hex'), true);
  END $find$;
  SELECT current_setting('holdfast.unreadable') AS hash`;
