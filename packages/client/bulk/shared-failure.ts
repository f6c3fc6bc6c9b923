/** Tells which failures of a request for many nodes are those of each node. */
import { CasError, isConnectionBreak } from '../errors.ts';

const STATUSES_OF_ALL: ReadonlySet<number> = new Set([
  401, // the capability is over
  403, // it does not permit this
]);

/** Whether every node would fail with this by itself too: no connection, token or permission, or a server that asks all to wait. */
export function isSharedFailure(error: unknown): boolean {
  if (!(error instanceof CasError)) return true;
  if (isConnectionBreak(error) || error.code === 'TOKEN_UNAVAILABLE') return true;
  const { status } = error;
  return status !== undefined && (STATUSES_OF_ALL.has(status) || error.retryAfterMs !== undefined);
}
