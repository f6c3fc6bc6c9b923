/** Writes failed requests and damaged nodes to the log of a server. */
import { KeySetUnavailable } from '../auth/auth-errors.ts';
import { CounterBroken, InvariantViolation } from '../core/invariant.ts';
import type { RotReport } from '../core/rotten-nodes.ts';
import type { FailureReport } from '../http/error-answer.ts';
import { type Log, reasonsOf } from '../log.ts';
import { ROT_FOUND, ROT_HEALED } from '../metrics/server-metrics.ts';

export function logFailure(log: Log, report: FailureReport, onFatal: (error: Error) => void): void {
  const { kind, requestId, error } = report;
  if (kind === 'caller-gone') log.debug({ requestId, err: error }, 'a caller went away before its answer');
  else if (error instanceof CounterBroken)
    log.error(
      { requestId, app: error.space?.appId, space: error.space?.spaceId, err: error },
      'a count of one Space contradicts its rows: requests that need it answer 503, other Spaces go on',
    );
  else if (error instanceof KeySetUnavailable)
    log.warn(
      { requestId, app: error.appId, reasons: reasonsOf(error.cause) },
      'the key set of an App cannot be used, and its requests answer 503: check the URL or file that it was registered with',
    );
  else if (kind === 'unexpected') log.error({ requestId, err: error }, 'a request failed unexpectedly');
  else
    log.warn(
      { requestId, reasons: reasonsOf(error) },
      'a request failed: storage or the registry could not be used',
    );
  if (error instanceof InvariantViolation) onFatal(error);
}

const ROT_LINES: Readonly<
  Record<RotReport['kind'], { readonly level: 'error' | 'warn' | 'info'; readonly message: string }>
> = {
  rotten: {
    level: 'error',
    message:
      'the stored content of a node is damaged or lost: push the tree it belongs to again, or lease and upload the node; check the store',
  },
  unread: {
    level: 'error',
    message: 'the scrub could not read the content of a node, which proves nothing yet: check the store',
  },
  met: { level: 'warn', message: 'a damaged node was asked for, and refused' },
  sound: { level: 'warn', message: 'the content of a damaged node was found good again' },
  healed: { level: 'info', message: 'a damaged node was healed by bytes that were uploaded again' },
};

/** Logs each rotten node when it is found, and when it is ready again. The log counts lines that repeat too fast. */
export function logRot(log: Log, { kind, space: { appId, spaceId }, hash, reason }: RotReport): void {
  const { level, message } = ROT_LINES[kind];
  log[level]({ app: appId, space: spaceId, hash, reason }, message);
  if (kind === 'rotten') ROT_FOUND.add();
  else if (kind === 'sound' || kind === 'healed') ROT_HEALED.add({ how: kind });
}
