/** The resources of one process that tenants share while their requests are answered (shares/README.md). */

import { FairRounds } from '../shares/fair-queue.ts';
import { FairShares } from '../shares/fair-shares.ts';
import {
  ANSWER_BYTES_MAX,
  BODY_BYTES_MAX,
  LARGE_ANSWER_BYTES_MAX,
  REQUESTS_IN_FLIGHT_MAX,
  UPLOADS_IN_FLIGHT_MAX,
} from './http-limits.ts';
import { BodyWatch } from './request-body.ts';
import { SentAnswers } from './sent-answers.ts';

export interface TenantShares {
  /** requests that are being answered, until the head of the answer is handed over */
  readonly requests: FairShares;
  /** bytes of bodies in memory, from before they are read until the request is answered */
  readonly bodies: FairShares;
  /** admits received bodies to parsing, by their bytes */
  readonly bodyTurns: FairRounds;
  /** bytes of answers in memory, from before they are read until they are sent */
  readonly answers: SentAnswers;
  /** the same for large responses; without room they are sent from a file, so they never delay small ones */
  readonly largeAnswers: SentAnswers;
  readonly uploads: FairShares;
  /** cuts off bodies that are too slow */
  readonly pace: BodyWatch;
}

export interface TenantShareOptions {
  /** processes that serve the same deployment on this machine; each has a part of every limit, at least a quarter */
  readonly processes?: number;
  readonly requestsMax?: number;
  readonly uploadsMax?: number;
  readonly bodyBytesMax?: number;
  readonly waitMsMax?: number;
}

export function makeTenantShares(options: TenantShareOptions = {}): TenantShares {
  // A few of many processes may get all the requests of a moment.
  const processes = Math.min(options.processes ?? 1, 4);
  const waitMsMax = options.waitMsMax ?? 250;
  const part = (whole: number): number => Math.ceil(whole / processes);
  // A waiting request has sent bytes that the runtime keeps in memory.
  const waitersMax = part(64);
  return {
    requests: new FairShares({
      resource: 'requests',
      capacity: part(options.requestsMax ?? REQUESTS_IN_FLIGHT_MAX),
      waitMsMax,
    }),
    bodies: new FairShares({
      resource: 'body bytes',
      capacity: part(options.bodyBytesMax ?? BODY_BYTES_MAX),
      waitMsMax,
      waitersMax,
    }),
    // Bodies of so many bytes are parsed in one round of the event loop: a few ms even if every byte is an escape.
    bodyTurns: new FairRounds(128 * 1024),
    answers: new SentAnswers({
      resource: 'answer bytes',
      capacity: part(ANSWER_BYTES_MAX),
    }),
    largeAnswers: new SentAnswers({
      resource: 'large answer bytes',
      capacity: part(LARGE_ANSWER_BYTES_MAX),
    }),
    uploads: new FairShares({
      resource: 'uploads',
      capacity: part(options.uploadsMax ?? UPLOADS_IN_FLIGHT_MAX),
      waitMsMax,
      waitersMax,
    }),
    pace: new BodyWatch(),
  };
}
