/** The record of one request, filled while it is answered: for metrics, the audit log and traces. */
import type { Capability, RequestedOperation } from '../auth/capability.ts';
import type { Space } from '../core/model.ts';

/** `upload`: a PUT to our own upload target. `other`: an unknown route, the front page, a preflight. */
export type ServedOperation = RequestedOperation | 'upload' | 'other';

export class RequestRecord {
  operation: ServedOperation = 'other';
  /** verified, or undefined */
  capability: Capability | undefined;
  /** of the path, or of an upload URL: nothing proves that the caller may use it */
  space: Space | undefined;
  /** of an answer's body */
  sentBytes = 0;
  /** of a request's body */
  receivedBytes = 0;
  /** as the answer says it */
  errorCode: string | undefined;
  /** the App whose key set could not be used, if that refused the request */
  appWithoutKeys: string | undefined;
  /** as the header X-Request-Id says it */
  requestId: string | undefined;
  /** a lease of a node that was ready already */
  isRenewal = false;
  /** whose share the request uses until its capability is verified */
  peerShare: (() => string) | undefined;
}
