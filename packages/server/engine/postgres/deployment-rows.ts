/** engine/transfer-ports.ts on PostgreSQL. A copy holds a lock of its own, and refuses to begin beside servers. */
import type { Space, SpaceCounters, SpaceKey } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { WALK_UNKNOWN } from '../../core/root-ref-walks.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { totalUsage } from '../../core/usage-delta.ts';
import { usageToSql } from '../rows/codecs.ts';
import type {
  Batch,
  BatchPart,
  DeploymentWriter,
  Entries,
  EntryKind,
  ListedSpace,
  MarkName,
  NodeEntry,
  PageRequest,
  Totals,
  UploadEntry,
} from '../transfer-ports.ts';
import { parseHistoryKey } from '../transfer-ports.ts';
import { damagedDomain, RowDamaged } from './damage.ts';
import { DEPLOYMENT_SQL, type DeploymentStatement } from './deployment-statements.ts';
import { guard } from './failure.ts';
import {
  balanceSum,
  commitSum,
  countersSum,
  domainCountSum,
  domainStateFromSql,
  domainSum,
  historySum,
  requestSum,
  withSuperseded,
} from './row-sums.ts';
import {
  contentsToSql,
  joinedContentFromSql,
  looseEdgeFromSql,
  looseEdgesToSql,
  nodeFromSql,
  nodesToSql,
  unprovenBalance,
  unprovenCommit,
  unprovenHistory,
  uploadFromSql,
  uploadsToSql,
} from './rows.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { bytesToBytea, hexToBytea, type SqlRow, type SqlValue, textToBytea } from './wire/wire-messages.ts';

type Write = readonly [statement: DeploymentStatement, parameters: readonly SqlValue[]];

const COUNTER_SLOT = 0;
const DOING = 'copying';

interface DeploymentRowsOptions {
  /** on a migrated database; the caller closes it */
  readonly pool: PostgresPool;
  /** on the same pool; only its counters are read */
  readonly metadata: MetadataStore;
}

export class PostgresDeploymentRows implements DeploymentWriter {
  readonly #pool: PostgresPool;
  readonly #metadata: MetadataStore;

  constructor({ pool, metadata }: DeploymentRowsOptions) {
    this.#pool = pool;
    this.#metadata = metadata;
  }

  async findMark(name: MarkName): Promise<string | undefined> {
    const [row] = await this.#find('findMark', [name]);
    return row?.value as string | undefined;
  }

  async setMark(name: MarkName, value: string): Promise<void> {
    await this.#pool.run(DOING, DEPLOYMENT_SQL.setMark, [name, value]);
  }

  async removeMark(name: MarkName): Promise<void> {
    await this.#pool.run(DOING, DEPLOYMENT_SQL.removeMark, [name]);
  }

  async isEmpty(): Promise<boolean> {
    return (await this.listSpaces(undefined, 1)).length === 0;
  }

  async readTotals(): Promise<Totals> {
    const [row] = await this.#find('readTotals', []);
    return { spaces: row?.spaces as number, nodes: row?.nodes as number, bytes: row?.bytes as number };
  }

  async findUnreached(): Promise<readonly string[]> {
    return (await this.#find('findUnreached', [])).map(({ name }) => name as string);
  }

  async listSpaces(after: string | undefined, limit: number): Promise<readonly ListedSpace[]> {
    const rows = await this.#find('listSpaces', [after ?? '00000000-0000-0000-0000-000000000000', limit]);
    return rows.map((row) => {
      const space = { appId: row.app_id as string, spaceId: row.space_id as string };
      if (spaceKeyOf(space) !== (row.space as string).replaceAll('-', ''))
        throw new RowDamaged('spaces', `the Space ${JSON.stringify(space.spaceId)}`);
      return { space, position: row.space as string };
    });
  }

  async readPage<K extends EntryKind>(page: PageRequest<K>): Promise<readonly Entries[K][]> {
    const { kind, domain, after, limit } = page;
    const rows = await this.#find(kind, [
      ...[spaceKeyOf(page.space), ...(DOMAIN_KINDS.has(kind) ? [domain] : [])],
      ...[...keyToSql(kind, after), limit],
    ]);
    const toEntry = ENTRIES_FROM_SQL[kind] as (row: SqlRow, at: At) => Entries[K];
    const at = { space: spaceKeyOf(page.space), domain: domain ?? '' };
    return rows.map((row) => toEntry(row, at));
  }

  async readCounters(space: Space): Promise<SpaceCounters> {
    return this.#metadata.readCounters(space);
  }

  /** All statements and COMMIT travel together: one round trip. */
  async write({ space, parts }: Batch, unfinished: string): Promise<void> {
    const key = spaceKeyOf(space);
    const names = [key, space.appId, space.spaceId];
    const writes: Write[] = [
      ['insertSpace', names],
      ...parts.flatMap((part) => (part.entries.length === 0 ? [] : writesOf(key, part))),
      ['setMark', ['unfinished', unfinished]],
    ];
    await guard(DOING, () => this.#pool.lend((connection) => runTogether(connection, writes)));
  }

  async #find(statement: DeploymentStatement, parameters: readonly SqlValue[]): Promise<readonly SqlRow[]> {
    const { rows } = await this.#pool.read(DOING, DEPLOYMENT_SQL[statement], parameters);
    return rows;
  }
}

/** Sends everything in one flight: the server skips all statements after a failure, COMMIT too. */
async function runTogether(connection: PostgresConnection, writes: readonly Write[]): Promise<void> {
  const sent = [
    connection.query('BEGIN'),
    ...writes.map(([name, parameters]) => connection.query(DEPLOYMENT_SQL[name], parameters)),
    connection.query('COMMIT'),
  ];
  const outcomes = await Promise.allSettled(sent);
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) {
    await connection.rollback();
    throw failed.reason;
  }
  const committed = await sent.at(-1);
  if (committed?.command !== 'COMMIT') throw new StoreUnavailable('PostgreSQL rolled a batch of a copy back');
}

const DOMAIN_KINDS: ReadonlySet<EntryKind> = new Set(['balances', 'history', 'commits']);

/** The first key behind `after`, or of all: an empty one is damage, and is met too. No domain has a control character. */
function keyToSql(kind: EntryKind, after: string | undefined): SqlValue[] {
  switch (kind) {
    case 'domains':
      return [after === undefined ? '' : `${after}\u0001`];
    case 'history': {
      const { hash, fromRevision } = parseHistoryKey(after);
      return [hexToBytea(hash), fromRevision];
    }
    case 'commits':
      return [textToBytea(after === undefined ? '' : `${after}\0`)];
    default:
      return [hexToBytea(after === undefined ? '' : `${after}00`)];
  }
}

interface At {
  readonly space: SpaceKey;
  /** '' for kinds that belong to no domain */
  readonly domain: string;
}

/** A row that is damaged is never copied. @throws RowDamaged */
const ENTRIES_FROM_SQL: { readonly [K in EntryKind]: (row: SqlRow, at: At) => Entries[K] } = {
  nodes: (row, { space }): NodeEntry => ({
    row: nodeFromSql(space, row),
    content: joinedContentFromSql(space, row),
  }),
  looseEdges: (row, { space }) => looseEdgeFromSql(space, row),
  // Uploads are direct, so no upload has content before a lease has judged it.
  uploads: (row, { space }): UploadEntry => ({ row: uploadFromSql(space, row), content: undefined }),
  domains: (row, { space }) => {
    const [domain, revision] = [row.domain as string, row.revision as number];
    const state = domainStateFromSql(row);
    if (isOther(row, domainSum(space, domain, revision, state))) throw damagedDomain(domain);
    return { domain, revision, historyFloor: Math.max(state.floor, state.walkedFrom) };
  },
  balances: (row, { space, domain }) => {
    const found = unprovenBalance(row);
    const { hash, balance, fromRevision: since } = found;
    if (isOther(row, balanceSum(space, { domain, hash, balance, since })))
      throw new RowDamaged('balances', `node ${hash} in the domain ${domain}`);
    return found;
  },
  history: (row, { space, domain }) => {
    const found = unprovenHistory(row);
    const { hash, balance, fromRevision: since, toRevision: until, supersededAt } = found;
    const sum = historySum(space, { domain, hash, balance, since, until });
    if (isOther(row, withSuperseded(sum, supersededAt)))
      throw new RowDamaged('balance_history', `node ${hash} in the domain ${domain}`);
    return found;
  },
  commits: (row, { space, domain }) => {
    const commit = unprovenCommit(row);
    if (isOther(row, commitSum(space, domain, commit)))
      throw new RowDamaged('root_ref_commits', `revision ${commit.revision} of the domain ${domain}`);
    return commit;
  },
};

const isOther = (row: SqlRow, sum: number): boolean => row.row_sum !== null && row.row_sum !== sum;

function writesOf(space: SpaceKey, part: BatchPart): Write[] {
  const { domain } = part;
  switch (part.kind) {
    case 'nodes':
      return writesOfNodes(space, part.entries);
    case 'uploads': {
      const contents = part.entries.flatMap(({ content }) => (content === undefined ? [] : [content]));
      const rows: Write = [
        'insertUploads',
        [
          space,
          ...uploadsToSql(
            space,
            part.entries.map(({ row }) => row),
          ),
        ],
      ];
      return contents.length === 0
        ? [rows]
        : [rows, ['insertContents', [space, ...contentsToSql(space, contents)]]];
    }
    case 'looseEdges': {
      const { entries } = part;
      return [['setLooseEdges', [space, ...looseEdgesToSql(space, entries)]]];
    }
    case 'domains': {
      const { entries } = part;
      const columns = [entries.map((each) => each.domain), entries.map(({ revision }) => revision)];
      const floors = entries.map(({ historyFloor }) => historyFloor);
      const sums = entries.map(({ domain, revision, historyFloor: floor }) =>
        domainSum(space, domain, revision, { floor, walkedFrom: 0, walkedUntil: WALK_UNKNOWN }),
      );
      const countSums = entries.map((each) => domainCountSum(space, each.domain, 0, null));
      return [['insertDomains', [space, ...columns, floors, sums, countSums]]];
    }
    case 'balances': {
      const { entries } = part;
      const sums = entries.map(({ hash, balance, fromRevision: since }) =>
        balanceSum(space, { domain, hash, balance, since }),
      );
      const columns = [entries.map(({ balance }) => balance), entries.map((each) => each.fromRevision), sums];
      return [['insertBalances', [space, domain, hashesOf(entries), ...columns]]];
    }
    case 'history': {
      const { entries } = part;
      const revisions = [entries.map((each) => each.fromRevision), entries.map((each) => each.toRevision)];
      const sums = entries.map(({ hash, balance, supersededAt, ...each }) => {
        const revisions = { since: each.fromRevision, until: each.toRevision };
        return withSuperseded(historySum(space, { domain, hash, balance, ...revisions }), supersededAt);
      });
      const columns = [entries.map(({ balance }) => balance), entries.map((each) => each.supersededAt), sums];
      return [['insertHistory', [space, domain, hashesOf(entries), ...revisions, ...columns]]];
    }
    case 'commits': {
      const { entries } = part;
      const ids = entries.map(({ requestId }) => textToBytea(requestId));
      const digests = entries.map(({ payloadDigest }) => bytesToBytea(payloadDigest));
      const sums = [
        entries.map((commit) => commitSum(space, domain, commit)),
        entries.map(({ requestId }) => requestSum(space, domain, requestId)),
      ];
      const revisions = entries.map(({ revision }) => revision);
      return [
        ['insertCommits', [space, domain, ids, digests, revisions, ...sums]],
        ['countCommits', [space, domain, entries.length]],
      ];
    }
  }
}

/** Every row that was ever leased counts as leased until upkeep takes it out of the counter. */
function writesOfNodes(space: SpaceKey, nodes: readonly NodeEntry[]): Write[] {
  const rows = nodes.map(({ row }) => ({ row, isLeaseCounted: row.leaseExpiresAt > 0 }));
  const usage = totalUsage(nodes.map(({ row }) => row));
  const counts = [...usageToSql(usage), rows.filter(({ isLeaseCounted }) => isLeaseCounted).length];
  const contents = nodes.flatMap(({ content }) => (content === undefined ? [] : [content]));
  return [
    ['insertNodes', [space, ...nodesToSql(space, rows)]],
    ...(contents.length === 0
      ? []
      : [['insertContents', [space, ...contentsToSql(space, contents)]] as const]),
    ['addCounters', [space, COUNTER_SLOT, ...counts, countersSum(space, COUNTER_SLOT, counts, 0)]],
  ];
}

const hashesOf = (entries: readonly { readonly hash: string }[]): string[] =>
  entries.map(({ hash }) => hexToBytea(hash));
