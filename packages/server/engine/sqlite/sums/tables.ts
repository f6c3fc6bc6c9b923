/** All tables whose rows carry sums: what is in the sum of a row, and what else follows from the row. */
import type { Database } from 'bun:sqlite';
import { countBytesToCompact } from '../../../core/packs/own-packs.ts';
import { WALK_UNKNOWN } from '../../../core/root-ref-walks.ts';
import {
  commitMarkSum,
  contentSum,
  DOMAIN_WEIGHTS,
  discardSum,
  looseEdgesSum,
  nodeSum,
  PURGED_WEIGHT,
  packSum,
  packUseSum,
  tombstoneSum,
  uploadSum,
  verdictsSum,
} from '../../../core/rows/row-sums.ts';
import { isUploadWhole, keptFromSql } from '../../rows/codecs.ts';
import {
  balanceSumOf,
  commitSumOf,
  domainSumOf,
  historySumOf,
  requestKey,
  storeSum,
} from '../ledger-rows.ts';
import {
  decodePack,
  decodeVerdicts,
  isPackWhole,
  packFactsFromSql,
  useFromSql,
} from '../packs/pack-codecs.ts';
import {
  bytesToHex,
  collectableCode,
  decodeContent,
  decodeNode,
  decodeUpload,
  discardFromSql,
} from '../rows.ts';
import { countersSumOf } from '../space-counters.ts';
import { spaceNameSum } from '../space-directory.ts';
import type { SqlRow } from '../statements.ts';

export interface SummedTable {
  readonly name: string;
  /** of the primary key */
  readonly key: readonly string[];
  /** those to read; all if left out */
  readonly columns?: readonly string[];
  readonly sumColumn: 'row_sum' | 'name_sum';
  /** undefined: it has values that no row has */
  readonly sumOf: (row: SqlRow) => number | undefined;
  /** what columns must be by other rows, if the others of this row are right */
  readonly recount?: (database: Database, row: SqlRow) => Readonly<Record<string, number>>;
  /** columns that a recount of other rows puts right: if nothing proves them they are 0 until then */
  readonly counted?: readonly string[];
  /** values of columns that are in no sum, because they follow from others */
  readonly derived?: (row: SqlRow) => Readonly<Record<string, number>>;
  /** a row may be older than its sum */
  readonly isOptional?: true;
  /** how to find the Space of a row */
  readonly spaceBy: 'space' | 'domain' | 'id' | 'none';
}

const hashOf = (row: SqlRow): string => bytesToHex(row.hash as Uint8Array);
const generationOf = (row: SqlRow): string => bytesToHex(row.generation as Uint8Array);
const number = (value: unknown): number => value as number;

const COUNTED = [
  ...['node_count', 'ready_content_bytes', 'ready_stored_bytes', 'waiting_bytes'],
  ...['not_ready_node_count', 'leased_count', 'lease_watermark', 'purged'],
];

const SPACES: readonly SummedTable[] = [
  {
    ...{ name: 'spaces', key: ['id'], sumColumn: 'name_sum', spaceBy: 'id' },
    columns: ['id', 'app_id', 'space_id', 'name_sum'],
    sumOf: (row) =>
      spaceNameSum(number(row.id), { appId: row.app_id as string, spaceId: row.space_id as string }),
  },
  {
    ...{ name: 'spaces', key: ['id'], sumColumn: 'row_sum', spaceBy: 'id' },
    counted: COUNTED,
    sumOf: (row) => {
      const counted = countersSumOf(number(row.id), keptFromSql(row), number(row.lease_watermark));
      return counted + PURGED_WEIGHT * number(row.purged);
    },
  },
];

const NODES: readonly SummedTable[] = [
  {
    ...{ name: 'nodes', key: ['space', 'hash'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: (row) => {
      const node = decodeNode({ ...row, stored_size: row.stored_size ?? row.canonical_size });
      return node && nodeSum(number(row.space), node);
    },
    derived: (row) => {
      const node = decodeNode({ ...row, stored_size: row.stored_size ?? row.canonical_size });
      return node === undefined ? {} : { collectable: collectableCode(node) };
    },
  },
  {
    ...{ name: 'contents', key: ['id'], sumColumn: 'row_sum', spaceBy: 'space' },
    // Not the inline bytes: the hash of their node proves them.
    columns: [
      ...['id', 'generation', 'space', 'canonical_size', 'integrity', 'url_expires_at', 'pack'],
      ...['pack_offset', 'stored_length', 'codec', 'row_sum'],
    ],
    sumOf: (row) => {
      const content = decodeContent(row);
      return content && contentSum(number(row.space), content);
    },
  },
  {
    ...{ name: 'uploads', key: ['space', 'hash'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: (row) => (isUploadWhole(row) ? uploadSum(number(row.space), decodeUpload(row)) : undefined),
  },
  {
    ...{ name: 'loose_edges', key: ['space', 'hash'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: (row) => looseEdgesSum(number(row.space), hashOf(row), number(row.count)),
  },
  {
    ...{ name: 'discards', key: ['generation'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: (row) => discardSum(number(row.space), discardFromSql(row)),
  },
  {
    ...{ name: 'tombstones', key: ['generation'], sumColumn: 'row_sum', spaceBy: 'none' },
    sumOf: (row) => tombstoneSum(generationOf(row), number(row.noted_at), number(row.seen_at)),
  },
];

const PACKS: readonly SummedTable[] = [
  {
    ...{ name: 'packs', key: ['generation'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: (row) =>
      isPackWhole(row)
        ? packSum(number(row.space), decodePack(row)) + packUseSum(useFromSql(row))
        : undefined,
    derived: (row) => ({ dead_bytes: countBytesToCompact(packFactsFromSql(row), useFromSql(row)) }),
  },
  {
    ...{ name: 'pack_verdicts', key: ['id'], sumColumn: 'row_sum', spaceBy: 'none' },
    sumOf: (row) => {
      try {
        return verdictsSum(generationOf(row), decodeVerdicts(row));
      } catch {
        // It is no JSON.
        return undefined;
      }
    },
  },
];

const COUNT_DOMAIN = `SELECT (SELECT count(*) FROM balances WHERE domain = ?1) AS balance_count, count(*) AS commit_count,
  coalesce(max(revision), 0) AS revision FROM root_ref_commits WHERE domain = ?1`;

/** One Space gives the row its sum, or whatever is left of the sum must be the floor. */
function recountDomain(database: Database, row: SqlRow): Record<string, number> {
  using spaces = database.prepare<{ id: number }, []>('SELECT id FROM spaces');
  for (const { id: space } of spaces.iterate()) {
    if (domainSumOf({ ...row, space }) === row.row_sum) return { space };
  }
  using statement = database.prepare<Record<string, number>, [number]>(COUNT_DOMAIN);
  const counts = statement.get(number(row.id)) ?? {};
  const counted = { ...row, ...counts, history_floor: 0 };
  const floor = (number(row.row_sum) - domainSumOf(counted)) / DOMAIN_WEIGHTS.historyFloor;
  const revision = number(counts.revision);
  if (!Number.isInteger(floor) || floor < 0 || floor > revision) return {};
  // No page of an earlier revision is sure to be whole.
  const safe = { ...counts, history_floor: floor, walked_from: revision, walked_until: WALK_UNKNOWN };
  return { ...safe, row_sum: domainSumOf({ ...row, ...safe }) };
}

const ROOT_REFS: readonly SummedTable[] = [
  {
    ...{ name: 'domains', key: ['id'], sumColumn: 'row_sum', spaceBy: 'space' },
    sumOf: domainSumOf,
    recount: recountDomain,
  },
  {
    ...{ name: 'balances', key: ['domain', 'hash'], sumColumn: 'row_sum', spaceBy: 'domain' },
    sumOf: balanceSumOf,
  },
  {
    ...{ name: 'balance_history', key: ['domain', 'hash', 'from_revision'], sumColumn: 'row_sum' },
    spaceBy: 'domain',
    sumOf: historySumOf,
  },
  {
    ...{ name: 'root_ref_commits', key: ['domain', 'request_id'], sumColumn: 'row_sum', spaceBy: 'domain' },
    sumOf: commitSumOf,
    derived: (row) => ({ request_key: requestKey(number(row.domain), row.request_id as string) }),
  },
  {
    ...{ name: 'commit_marks', key: ['domain', 'marked_at'], sumColumn: 'row_sum', spaceBy: 'domain' },
    sumOf: (row) =>
      commitMarkSum(number(row.domain), { markedAt: number(row.marked_at), revision: number(row.revision) }),
  },
];

export const SPACE_NAMES = SPACES[0] as SummedTable;
export const DOMAINS = ROOT_REFS[0] as SummedTable;
/** Tables whose rows protect nodes: while one of them is unproven no count is lowered. */
export const PROTECTING_TABLES: ReadonlySet<string> = new Set([
  ...['spaces', 'domains', 'balances', 'nodes', 'loose_edges'],
]);

export const STORE: SummedTable = {
  ...{ name: 'store', key: ['name'], sumColumn: 'row_sum', spaceBy: 'none', isOptional: true },
  sumOf: (row) => storeSum(row.name as string, row.value as string),
};
/** Tables by which others are found come first. */
export const SUMMED_TABLES: readonly SummedTable[] = [...SPACES, ...ROOT_REFS, ...NODES, ...PACKS, STORE];
