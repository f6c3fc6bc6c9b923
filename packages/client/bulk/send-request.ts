/** How the parts of Bulk send a request: with the patience, the turns and the progress of the job they are part of. */

import type { Hash } from '@holdfast/protocol';
import { countOf } from '@holdfast/protocol';
import { CasError } from '../errors.ts';

/** Sends until it is answered. `what` completes "no answer yet to …". Rejects with the last CasError, or the signal's reason. */
export type SendRequest = <T>(what: string, request: () => Promise<T>) => Promise<T>;

/** The server does not offer Bulk, or no longer: the operations on single nodes do the same. */
export function isBulkUnavailable(error: unknown): boolean {
  return error instanceof CasError && error.code === 'BULK_UNAVAILABLE';
}

/** Names the request that is waited for by a node that is in it. */
export function describeReading(hashes: readonly Hash[]): string {
  const [first = ''] = hashes;
  return hashes.length === 1
    ? `reading ${first}`
    : `reading ${first} and ${countOf(hashes.length - 1, 'more node')}`;
}
