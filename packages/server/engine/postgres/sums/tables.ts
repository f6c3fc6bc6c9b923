/** All tables whose rows carry sums, and how a row of each is judged. */
import { spaceKeyOf } from '../../../core/space-key.ts';
import { isUseProven, readPack, verdictsFromSql } from '../packs/pack-rows.ts';
import { RowDamaged } from '../row-damage.ts';
import { balanceSum, commitSum, domainSum, historySum, requestSum, withSuperseded } from '../row-sums.ts';
import {
  findDiscardInSql,
  findProvenContent,
  findProvenUpload,
  looseEdgeFromSql,
  readNode,
} from '../rows.ts';
import { spaceKeyFromSql } from '../space-names.ts';
import { byteaToBytes, byteaToHex, byteaToText, type SqlRow } from '../wire/sql-values.ts';

export type ColumnKind = 'uuid' | 'bytes' | 'integer' | 'boolean' | 'text';

export interface SummedTable {
  readonly name: string;
  /** of the primary key */
  readonly key: readonly string[];
  /** all that are in a sum, and the sums; the long ones last */
  readonly columns: Readonly<Record<string, ColumnKind>>;
  /** `row` as statements give it */
  readonly isProven: (row: SqlRow) => boolean;
  /** its rows say what nodes are kept for: while one of them is unproven no count is lowered */
  readonly isProtecting: boolean;
}

const keyOf = (row: SqlRow): string => spaceKeyFromSql(row.space);
const integers = (...names: readonly string[]): Record<string, ColumnKind> =>
  Object.fromEntries(names.map((name) => [name, 'integer']));
const booleans = (...names: readonly string[]): Record<string, ColumnKind> =>
  Object.fromEntries(names.map((name) => [name, 'boolean']));
const bytes = (...names: readonly string[]): Record<string, ColumnKind> =>
  Object.fromEntries(names.map((name) => [name, 'bytes']));
const SPACE = { space: 'uuid' } as const;
const DOMAIN = { ...SPACE, domain: 'text' } as const;

/** Whether `read` finds nothing wrong. */
function passes(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch (error) {
    if (error instanceof RowDamaged) return false;
    throw error;
  }
}

const isSum = (row: SqlRow, sum: number): boolean => row.row_sum === null || row.row_sum === sum;

const SPACES: SummedTable = {
  name: 'spaces',
  key: ['space'],
  columns: { ...SPACE, app_id: 'text', space_id: 'text' },
  isProven: (row) =>
    spaceKeyOf({ appId: row.app_id as string, spaceId: row.space_id as string }) === keyOf(row),
  isProtecting: true,
};

const NODES: SummedTable = {
  name: 'nodes',
  key: ['space', 'hash'],
  columns: {
    ...{ ...integers('fixed_sum', 'row_sum', 'state'), ...SPACE, ...bytes('hash', 'generation') },
    ...integers('size', 'canonical_size', 'stored_size', 'lease_started_at', 'lease_expires_at'),
    ...integers('child_ref_count', 'root_ref_count', 'held_domain_count'),
    ...integers('waiting_touched_at', 'claim_held_until'),
    ...booleans('inline', 'packed', 'collectable', 'lease_counted'),
    ...{ content_type: 'text', refs: 'bytes' },
  },
  isProven: (row) => readNode(keyOf(row), row).isProven,
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
  isProven: (row) => {
    const { pack, isProven } = readPack(keyOf(row), row);
    return isProven && isUseProven(keyOf(row), pack.generation, row);
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
  isProven: (row) => findProvenContent(keyOf(row), row) !== undefined,
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
      ...{ broken_message: 'text', rejections: 'text', hashes: 'bytes' },
    },
    isProven: (row) => passes(() => verdictsFromSql(keyOf(row), byteaToHex(row.generation), row)),
    isProtecting: false,
  },
  {
    name: 'uploads',
    key: ['space', 'hash'],
    columns: {
      ...{ ...integers('row_sum'), ...SPACE, ...bytes('hash', 'generation') },
      ...integers(
        'created_at',
        'url_expires_at',
        'touched_at',
        'active_at',
        'canonical_size',
        'size',
        'verdict',
      ),
      ...{ ...booleans('inline'), rejection_code: 'text', rejection_message: 'text', bad_code: 'text' },
      ...{ bad_message: 'text', content_type: 'text', integrity: 'bytes', refs: 'bytes' },
    },
    isProven: (row) => findProvenUpload(keyOf(row), row) !== undefined,
    isProtecting: false,
  },
  {
    name: 'discards',
    key: ['space', 'generation'],
    columns: { ...integers('row_sum', 'due_at', 'url_expires_at'), ...SPACE, ...bytes('generation') },
    isProven: (row) => findDiscardInSql(keyOf(row), row) !== undefined,
    isProtecting: false,
  },
];

export const DOMAINS: SummedTable = {
  name: 'domains',
  key: ['space', 'domain'],
  columns: { ...integers('row_sum', 'revision', 'history_floor'), ...DOMAIN },
  isProven: (row) => {
    const [revision, floor] = [row.revision as number, row.history_floor as number];
    return isSum(row, domainSum(keyOf(row), row.domain as string, revision, floor));
  },
  isProtecting: true,
};

const ROOT_REFS: readonly SummedTable[] = [
  DOMAINS,
  {
    name: 'balances',
    key: ['space', 'domain', 'hash'],
    columns: { ...integers('row_sum', 'balance', 'from_revision'), ...DOMAIN, ...bytes('hash') },
    isProven: (row) => {
      const [hash, balance] = [byteaToHex(row.hash), row.balance as number];
      const given = { domain: row.domain as string, hash, balance, since: row.from_revision as number };
      return isSum(row, balanceSum(keyOf(row), given));
    },
    isProtecting: true,
  },
  {
    name: 'balance_history',
    key: ['space', 'domain', 'hash', 'from_revision'],
    columns: {
      ...integers('row_sum', 'from_revision', 'to_revision', 'balance', 'superseded_at'),
      ...{ ...DOMAIN, ...bytes('hash') },
    },
    isProven: (row) => {
      const [since, until] = [row.from_revision as number, row.to_revision as number];
      const [hash, balance] = [byteaToHex(row.hash), row.balance as number];
      const sum = historySum(keyOf(row), { domain: row.domain as string, hash, balance, since, until });
      return isSum(row, withSuperseded(sum, row.superseded_at as number));
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
    isProven: (row) => {
      const [requestId, payloadDigest] = [byteaToText(row.request_id), byteaToBytes(row.payload_digest)];
      const domain = row.domain as string;
      const sum = commitSum(keyOf(row), domain, {
        requestId,
        payloadDigest,
        revision: row.revision as number,
      });
      const name = row.request_sum === null ? null : requestSum(keyOf(row), domain, requestId);
      return isSum(row, sum) && row.request_sum === name;
    },
    isProtecting: false,
  },
];

const LOOSE_EDGES: SummedTable = {
  name: 'loose_edges',
  key: ['space', 'hash'],
  columns: { ...integers('row_sum', 'count'), ...SPACE, ...bytes('hash') },
  isProven: (row) => passes(() => looseEdgeFromSql(keyOf(row), row)),
  isProtecting: true,
};

/** Spaces come first: the others are named by them. Nodes come last: their counts are compared with what the others say. */
export const SUMMED_TABLES: readonly SummedTable[] = [SPACES, ...STORED, ...ROOT_REFS, LOOSE_EDGES, NODES];
