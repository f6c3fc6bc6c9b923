/** Every limit of the S3 engine, in one place. Tests shorten the times. */

import { HOUR_MS, SECOND_MS } from '@holdfast/protocol';

export interface S3Limits {
  /** requests of this process under way at once; below the runtime's own limit (256), because its queue has no bound */
  readonly requestsInFlightMax: number;
  /** requests that wait for one of those slots; further ones are refused */
  readonly requestsWaitingMax: number;
  readonly waitMsMax: number;
  /** from sending a request to the head of its answer */
  readonly headMsMax: number;
  /** the same for requests about many objects */
  readonly batchHeadMsMax: number;
  /** between two pieces of a body that is being read */
  readonly stallMsMax: number;
  /** attempts of one request */
  readonly attemptsMax: number;
  /** no further attempt begins after this */
  readonly operationMsMax: number;
  /** the longest pause before the first repetition, doubled for each further one; the pause is random between 0 and that */
  readonly retryPauseMs: number;
  readonly retryPauseMsMax: number;
  /** how long the bucket counts as healthy after a look at its marker, where no proof depends on it */
  readonly healthMs: number;
  /** how long the store's clock, as an answer told it, counts as known */
  readonly clockMs: number;
  /** between two pages of the sweep's listing */
  readonly listIntervalMs: number;
  /** from the start of one walk over all keys to the start of the next */
  readonly walkIntervalMs: number;
  /** keys of one listing */
  readonly listKeysMax: number;
}

export const S3_LIMITS: S3Limits = {
  requestsInFlightMax: 128,
  requestsWaitingMax: 1024,
  waitMsMax: 10 * SECOND_MS,
  headMsMax: 8 * SECOND_MS,
  batchHeadMsMax: 30 * SECOND_MS,
  stallMsMax: 8 * SECOND_MS,
  attemptsMax: 6,
  operationMsMax: 20 * SECOND_MS,
  retryPauseMs: 100,
  retryPauseMsMax: 2 * SECOND_MS,
  healthMs: 5 * SECOND_MS,
  clockMs: 30 * SECOND_MS,
  listIntervalMs: SECOND_MS,
  walkIntervalMs: HOUR_MS,
  listKeysMax: 1000,
};

/** DeleteObjects takes no more. */
export const DELETE_BATCH_MAX = 1000;
/** of an answer that lists 1000 keys */
export const LIST_BYTES_MAX = 4 * 1024 * 1024;
