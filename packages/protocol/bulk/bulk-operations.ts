/** The operations of Bulk (docs/bulk.md), beside those of the Space API: the same capability rules under a root of their own. */
import type { Operation } from '../operations.ts';
import { fillPath, pathPattern } from '../space-paths.ts';

export const BULK_PATH_TEMPLATE = '/bulk/v1/apps/{appId}/spaces/{spaceId}';

export type BulkOperationName = 'leaseNodes' | 'leasePack' | 'readNodes';

export const BULK_OPERATIONS: Readonly<Record<BulkOperationName, Operation>> = {
  leaseNodes: { method: 'POST', path: `${BULK_PATH_TEMPLATE}/leases`, authority: 'cas:nodes:lease' },
  leasePack: {
    method: 'POST',
    path: `${BULK_PATH_TEMPLATE}/packs/{packId}/lease`,
    authority: 'cas:nodes:lease',
  },
  readNodes: { method: 'POST', path: `${BULK_PATH_TEMPLATE}/reads`, authority: 'cas:nodes:read' },
};

/** A path of Bulk, its variable parts still percent-encoded (judge them with `parsePathId`, `isPackId`). */
export interface BulkPathMatch {
  readonly operation: BulkOperationName;
  readonly appId: string;
  readonly spaceId: string;
  /** `undefined` for operations that name no pack */
  readonly packId: string | undefined;
}

const BULK_PATTERNS = (Object.keys(BULK_OPERATIONS) as BulkOperationName[]).map((operation) => ({
  operation,
  pattern: pathPattern(BULK_OPERATIONS[operation].path),
}));

/** `matchSpacePath` for Bulk: `undefined` is 404 whatever the token, and so is any method but POST. */
export function matchBulkPath(path: string): BulkPathMatch | undefined {
  for (const { operation, pattern } of BULK_PATTERNS) {
    const found = pattern.exec(path)?.groups;
    if (found === undefined) continue;
    const { appId = '', spaceId = '', packId } = found;
    return { operation, appId, spaceId, packId };
  }
  return undefined;
}

/** The path of an operation, ids percent-encoded. Throws RangeError as `operationPath` does. */
export function bulkOperationPath(
  name: BulkOperationName,
  target: { readonly appId: string; readonly spaceId: string; readonly packId?: string },
): string {
  return fillPath(BULK_OPERATIONS[name].path, target);
}

export const PACK_ID_BYTES = 16;

const PACK_ID_PATTERN = /^[0-9a-f]{32}$/;

/** Text that is no pack id is answered as an unknown one: 404. */
export function isPackId(value: unknown): value is string {
  return typeof value === 'string' && PACK_ID_PATTERN.test(value);
}
