/**
 * Rules for every upload of a node or a pack: how many may be active in a Space, how long a URL is valid, and what every PUT to the
 * embedded upload target must have (docs/api.md, The upload target).
 */
import { ApiError } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { after } from '../awaitable.ts';
import { type ReplacementRules, replacementRulesOf } from '../contents.ts';
import type { Core } from '../core.ts';
import { checkRoom } from '../quotas.ts';
import type { UploadBody, UploadReceiver } from '../upload-ports.ts';
import type { PackGrant, UploadGrant } from './upload-token.ts';

export interface UploadRules extends ReplacementRules {
  readonly activeUploadsMax: number;
  /** ms an upload URL is good for */
  readonly uploadTtlMs: number;
  /** the disk has no room for a new one */
  readonly isDiskFull: boolean;
}

export function uploadRulesOf(core: Core): UploadRules {
  const { activeUploadsMax, uploadTtlMs } = core.settings;
  const isDiskFull = core.freeSpace?.isLowFor(0) ?? false;
  return { ...replacementRulesOf(core), activeUploadsMax, uploadTtlMs, isDiskFull };
}

export const tooManyUploads = (activeUploadsMax: number): ApiError =>
  new ApiError(
    'CAS_UPLOAD_LIMIT',
    `this Space has ${activeUploadsMax} active uploads; finish some, or wait, and repeat the same lease request`,
    { retryAfterSeconds: 5 },
  );

/** Never before `earlier`, when an earlier URL of the same generation expires. */
export function urlExpiryFrom({ uploads, uploadTtlMs }: UploadRules, now: number, earlier = 0): number {
  const expiresAt = Math.max(earlier, now + uploadTtlMs);
  // A content store that takes direct uploads counts the life of a URL in whole seconds, so rows and answers do too.
  return uploads === 'server' ? expiresAt : expiresAt - (expiresAt % 1000);
}

export interface UploadRequest {
  /** the part of the path after /uploads/ */
  readonly token: string;
  readonly contentType: string | undefined;
  readonly ifNoneMatch: string | undefined;
  /** bytes, from Content-Length */
  readonly declaredLength: number | undefined;
  readonly body: UploadBody | null;
  /** Called once the token is verified; an error refuses the upload. */
  readonly onGrant?: (grant: UploadGrant | PackGrant) => Awaitable<void>;
  /** Called before the body of a permitted upload is read; an error refuses the upload. */
  readonly admit?: (grant: UploadGrant | PackGrant) => Promise<void>;
}

/**
 * Checks a PUT before its body is read; returns no promise if no check needs one. Throws or rejects with NOT_FOUND (uploads are direct),
 * FORBIDDEN (403), the error of a full disk, or the error of `admit`.
 */
export function admitUpload(
  core: Core,
  request: UploadRequest,
  grant: UploadGrant | PackGrant,
  mediaType: string,
): Awaitable<UploadReceiver> {
  const receiver = getReceiver(core);
  return after(checkUrlExpiry(core, grant), () => {
    checkUploadHeaders(request, mediaType);
    checkRoom(core.freeSpace, request.declaredLength ?? 0);
    return after(request.admit?.(grant), () => receiver);
  });
}

/** Throws or rejects with FORBIDDEN. A synchronous clock is not awaited, because that would cost a turn of the event loop. */
function checkUrlExpiry({ metadata }: Core, { expiresAt }: Pick<UploadGrant, 'expiresAt'>): Awaitable<void> {
  return after(metadata.readClock(), (now) => {
    if (expiresAt > now) return;
    throw new ApiError('FORBIDDEN', 'this upload URL has expired; repeat the lease request for a new one');
  });
}

export function getReceiver(core: Core): UploadReceiver {
  if (core.content.upload.kind === 'server') return core.content.upload.receiver;
  throw new ApiError(
    'NOT_FOUND',
    'this server takes no uploads itself; use the upload URL of the lease answer',
  );
}

function checkUploadHeaders(request: UploadRequest, mediaType: string): void {
  if (request.ifNoneMatch === '*' && request.contentType === mediaType) return;
  throw new ApiError(
    'FORBIDDEN',
    `send the upload headers exactly as the lease returned them: content-type ${mediaType}, if-none-match *`,
  );
}

export const alreadyFinished = (): ApiError =>
  new ApiError('CONFLICT', 'this upload is already finished; repeat the lease request', { status: 412 });
