/** All tables whose rows carry sums, and how a row of each is judged. */
import { spaceKeyOf } from '../../../core/space-map.ts';
import { hasNoOtherPlace, isUploadWhole } from '../../rows/codecs.ts';
import { sumOfVerdicts, sumsOfPack } from '../packs/pack-rows.ts';
import {
  balanceSum,
  COUNTER_COLUMNS,
  commitMarkSum,
  commitSum,
  countersSum,
  domainCountSum,
  domainStateFromSql,
  domainSum,
  historySum,
  PURGED_SUM,
  requestSum,
  sharedSum,
  tombstoneSum,
  withSuperseded,
} from '../row-sums.ts';
import {
  isWholeNode,
  sumOfDiscard,
  sumOfLooseEdge,
  sumOfUpload,
  sumsOfContent,
  sumsOfNode,
  unprovenBalance,
  unprovenCommit,
  unprovenNode,
} from '../rows.ts';
import { spaceKeyFromSql } from '../space-names.ts';
import { byteaToBytes, byteaToHex, type SqlRow } from '../wire/wire-messages.ts';

export type ColumnKind = 'uuid' | 'bytes' | 'integer' | 'boolean' | 'text';
type Sums = Readonly<Record<string, number>>;

export interface SummedTable {
  readonly name: string;
  /** of the primary key */
  readonly key: readonly string[];
  /** all that are in a sum, and the sums; the long ones last */
  readonly columns: Readonly<Record<string, ColumnKind>>;
  /** the sums that a row with these values has; `row` as statements give it */
  readonly sumsOf: (row: SqlRow) => Sums;
  /** what must be true of a row beside its sums */
  readonly isSound?: (row: SqlRow) => boolean;
  /** its rows say what nodes are kept for: while one of them is unproven no count is lowered */
  readonly isProtecting: boolean;
}

/** Sums that a row may lack while it has its others. */
const ALONE: ReadonlySet<string> = new Set(['use_sum', 'count_sum']);

/** A row that is older than sums is believed. */
export function isProvenIn(table: SummedTable, row: SqlRow): boolean {
  if (table.isSound?.(row) === false) return false;
  const sums = Object.entries(table.sumsOf(row));
  const isKept = ([column]: [string, number]): boolean => row[column] !== null;
  const isWhole = sums.filter(([column]) => !ALONE.has(column)).map(isKept);
  return (
    !(isWhole.includes(true) && isWhole.includes(false)) &&
    sums.every(([column, sum]) => row[column] === null || row[column] === sum)
  );
}

const keyOf = (row: SqlRow): string => spaceKeyFromSql(row.space);
const kinds =
  (kind: ColumnKind) =>
  (...names: readonly string[]): Record<string, ColumnKind> =>
    Object.fromEntries(names.map((name) => [name, kind]));
const integers = kinds('integer');
const booleans = kinds('boolean');
const bytes = kinds('bytes');
const texts = kinds('text');
const SPACE = { space: 'uuid' } as const;
const DOMAIN = { ...SPACE, domain: 'text' } as const;
const numberOf = (row: SqlRow, column: string): number => row[column] as number;
const textOf = (row: SqlRow, column: string): string => row[column] as string;

const SPACES: SummedTable = {
  name: 'spaces',
  key: ['space'],
  columns: { ...SPACE, ...booleans('purged'), ...integers('purged_sum'), ...texts('app_id', 'space_id') },
  sumsOf: () => ({}),
  isSound: (row) =>
    spaceKeyOf({ appId: textOf(row, 'app_id'), spaceId: textOf(row, 'space_id') }) === keyOf(row) &&
    row.purged_sum === (row.purged === true ? PURGED_SUM : null),
  isProtecting: true,
};

export const NODES: SummedTable = {
  name: 'nodes',
  key: ['space', 'hash'],
  columns: {
    ...{ ...integers('fixed_sum', 'row_sum', 'state'), ...SPACE, ...bytes('hash', 'generation') },
    ...integers(
      'size',
      'canonical_size',
      'stored_size',
      'lease_due_at',
      'lease_started_at',
      'lease_expires_at',
    ),
    ...integers('child_ref_count', 'root_ref_count', 'held_domain_count'),
    ...integers('waiting_touched_at', 'claim_held_until'),
    ...booleans('inline', 'packed', 'collectable', 'lease_counted'),
    ...{ content_type: 'text', refs: 'bytes' },
  },
  sumsOf: (row) => {
    const sums = sumsOfNode(keyOf(row), row);
    return { fixed_sum: sums.fixed, row_sum: sums.row };
  },
  // In no sum: an instant before the end costs only a look. One that is later, or none, would hide the row from upkeep and collection.
  isSound: (row) => {
    if (row.row_sum === null && !isWholeNode(unprovenNode(row))) return false;
    const dueAt = numberOf(row, 'lease_due_at');
    return dueAt >= 0 && dueAt <= numberOf(row, 'lease_expires_at');
  },
  isProtecting: true,
};

export const PACKS: SummedTable = {
  name: 'packs',
  key: ['space', 'generation'],
  columns: {
    ...{ ...integers('row_sum', 'use_sum', 'state'), ...SPACE, ...bytes('generation', 'id') },
    ...integers('created_at', 'url_expires_at', 'touched_at', 'bytes', 'published_count', 'version'),
    ...integers('reserved_bytes', 'reserved_nodes', 'live_records', 'live_bytes', 'first_dead_at'),
    ...{ ...booleans('discarded'), ...bytes('asked') },
  },
  sumsOf: (row) => {
    const sums = sumsOfPack(keyOf(row), row);
    return { row_sum: sums.row, use_sum: sums.use };
  },
  isProtecting: false,
};

export const CONTENTS: SummedTable = {
  name: 'contents',
  key: ['space', 'generation'],
  columns: {
    ...{ ...integers('row_sum', 'place_sum'), ...SPACE, ...bytes('generation') },
    ...integers('canonical_size', 'url_expires_at', 'pack_offset', 'stored_length', 'codec'),
    ...bytes('pack', 'integrity', 'inline_bytes'),
  },
  sumsOf: (row) => {
    const sums = sumsOfContent(keyOf(row), row);
    return { row_sum: sums.row, place_sum: sums.place };
  },
  isSound: hasNoOtherPlace,
  isProtecting: false,
};

const STORED: readonly SummedTable[] = [
  CONTENTS,
  PACKS,
  {
    name: 'pack_verdicts',
    key: ['space', 'generation'],
    columns: {
      ...{ ...integers('row_sum', 'broken_byte'), ...SPACE, ...bytes('generation') },
      ...{ ...texts('broken_message', 'rejections'), hashes: 'bytes' },
    },
    sumsOf: (row) => ({ row_sum: sumOfVerdicts(keyOf(row), byteaToHex(row.generation), row) }),
    isProtecting: false,
  },
  {
    name: 'uploads',
    key: ['space', 'hash'],
    columns: {
      ...{ ...integers('row_sum'), ...SPACE, ...bytes('hash', 'generation') },
      ...integers('created_at', 'url_expires_at', 'touched_at', 'active_at'),
      ...integers('canonical_size', 'size', 'verdict'),
      ...{ ...booleans('inline'), ...texts('rejection_code', 'rejection_message', 'bad_code') },
      ...{ ...texts('bad_message', 'content_type'), ...bytes('integrity', 'refs') },
    },
    sumsOf: (row) => ({ row_sum: sumOfUpload(keyOf(row), row) }),
    isSound: isUploadWhole,
    isProtecting: false,
  },
  {
    name: 'discards',
    key: ['space', 'generation'],
    columns: { ...integers('row_sum', 'due_at', 'url_expires_at'), ...SPACE, ...bytes('generation') },
    sumsOf: (row) => ({ row_sum: sumOfDiscard(keyOf(row), row) }),
    isProtecting: false,
  },
];

export const DOMAINS: SummedTable = {
  name: 'domains',
  key: ['space', 'domain'],
  columns: {
    ...integers('row_sum', 'count_sum', 'revision', 'history_floor', 'commit_count', 'balance_count'),
    ...integers('walked_from', 'walked_until'),
    ...DOMAIN,
  },
  sumsOf: (row) => {
    const [space, domain] = [keyOf(row), textOf(row, 'domain')];
    const balances = row.balance_count as number | null;
    return {
      row_sum: domainSum(space, domain, numberOf(row, 'revision'), domainStateFromSql(row)),
      count_sum: domainCountSum(space, domain, numberOf(row, 'commit_count'), balances),
    };
  },
  isProtecting: true,
};

const balanceOf = (row: SqlRow) => {
  const { fromRevision: since, ...balance } = unprovenBalance(row);
  return { domain: textOf(row, 'domain'), ...balance, since };
};

const ROOT_REFS: readonly SummedTable[] = [
  DOMAINS,
  {
    name: 'balances',
    key: ['space', 'domain', 'hash'],
    columns: { ...integers('row_sum', 'balance', 'from_revision'), ...DOMAIN, ...bytes('hash') },
    sumsOf: (row) => ({ row_sum: balanceSum(keyOf(row), balanceOf(row)) }),
    isProtecting: true,
  },
  {
    name: 'balance_history',
    key: ['space', 'domain', 'hash', 'from_revision'],
    columns: {
      ...integers('row_sum', 'from_revision', 'to_revision', 'balance', 'superseded_at'),
      ...{ ...DOMAIN, ...bytes('hash') },
    },
    sumsOf: (row) => {
      const sum = historySum(keyOf(row), { ...balanceOf(row), until: numberOf(row, 'to_revision') });
      return { row_sum: withSuperseded(sum, numberOf(row, 'superseded_at')) };
    },
    isProtecting: false,
  },
  {
    name: 'root_ref_commits',
    key: ['space', 'domain', 'request_id'],
    columns: {
      ...{ ...integers('row_sum', 'request_sum', 'revision'), ...DOMAIN },
      ...bytes('payload_digest', 'request_id'),
    },
    sumsOf: (row) => {
      const [space, domain, commit] = [keyOf(row), textOf(row, 'domain'), unprovenCommit(row)];
      const requestSumOf = requestSum(space, domain, commit.requestId);
      return { row_sum: commitSum(space, domain, commit), request_sum: requestSumOf };
    },
    isProtecting: false,
  },
];

const COMMIT_MARKS: SummedTable = {
  name: 'commit_marks',
  key: ['space', 'domain', 'marked_at'],
  columns: { ...integers('row_sum', 'marked_at', 'revision'), ...DOMAIN },
  sumsOf: (row) => {
    const mark = { markedAt: numberOf(row, 'marked_at'), revision: numberOf(row, 'revision') };
    return { row_sum: commitMarkSum(keyOf(row), textOf(row, 'domain'), mark) };
  },
  isProtecting: false,
};

const LOOSE_EDGES: SummedTable = {
  name: 'loose_edges',
  key: ['space', 'hash'],
  columns: { ...integers('row_sum', 'count'), ...SPACE, ...bytes('hash') },
  // A count of 0 is the lock of a transaction.
  sumsOf: (row) => ({ row_sum: sumOfLooseEdge(keyOf(row), byteaToHex(row.hash), numberOf(row, 'count')) }),
  isProtecting: true,
};

/** Figures and short texts, and what a walk over the bucket has found. */
const OTHERS: readonly SummedTable[] = [
  {
    name: 'usage_counters',
    key: ['space', 'slot'],
    columns: { ...integers('row_sum', 'slot', ...COUNTER_COLUMNS, 'lease_watermark'), ...SPACE },
    sumsOf: (row) => {
      const values = COUNTER_COLUMNS.map((column) => numberOf(row, column));
      const watermark = numberOf(row, 'lease_watermark');
      return { row_sum: countersSum(keyOf(row), numberOf(row, 'slot'), values, watermark) };
    },
    isProtecting: false,
  },
  {
    name: 'tombstones',
    key: ['generation'],
    columns: { ...integers('row_sum', 'noted_at', 'seen_at'), ...bytes('generation') },
    sumsOf: (row) => ({
      row_sum: tombstoneSum(byteaToHex(row.generation), numberOf(row, 'noted_at'), numberOf(row, 'seen_at')),
    }),
    isProtecting: false,
  },
];

/** Tables that all processes share. They are also checked when a server starts. */
export const SHARED_TABLES: readonly SummedTable[] = [
  {
    name: 'notes',
    key: ['name'],
    columns: { ...integers('row_sum'), ...texts('name', 'value') },
    sumsOf: (row) => ({ row_sum: sharedSum(textOf(row, 'name'), textOf(row, 'value')) }),
    isProtecting: false,
  },
  {
    name: 'secrets',
    key: ['name'],
    columns: { ...integers('row_sum'), name: 'text', value: 'bytes' },
    sumsOf: (row) => ({ row_sum: sharedSum(textOf(row, 'name'), byteaToBytes(row.value)) }),
    isProtecting: false,
  },
];

/** Spaces come first: the others are named by them. Nodes come last: their counts are compared with what the others say. */
export const SUMMED_TABLES: readonly SummedTable[] = [
  ...[SPACES, ...STORED, ...ROOT_REFS, COMMIT_MARKS, ...OTHERS, ...SHARED_TABLES],
  ...[LOOSE_EDGES, NODES],
];

/** `spaces` has no sum that a row can lack, and the rows of nodes are proven first. */
export const FILLED_TABLES: readonly SummedTable[] = [...STORED, ...ROOT_REFS, ...OTHERS, LOOSE_EDGES];

const sumColumnsOf = ({ columns }: SummedTable): string[] =>
  Object.keys(columns).filter((column) => /^(?:row|fixed|place|use|count|request)_sum$/.test(column));

/** SQL that is true of a row which lacks a sum. */
export const lackOf = (table: SummedTable): string =>
  sumColumnsOf(table)
    .map((column) => `${table.name}.${column} IS NULL`)
    .join(' OR ');

/** The figures of a domain whose balances are not counted, as after a purge, need no sum. */
export const lacksSum = (table: SummedTable, row: Readonly<Record<string, unknown>>): boolean =>
  sumColumnsOf(table).some(
    (column) => row[column] === null && (column !== 'count_sum' || row.balance_count !== null),
  );
