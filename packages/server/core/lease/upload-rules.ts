/** Rules for every new upload of a node or a pack: how many may be active in a Space, and how long a URL is valid. */
import { ApiError } from '@holdfast/protocol';
import { type ReplacementRules, replacementRulesOf } from '../contents.ts';
import type { Core } from '../core.ts';

export interface UploadRules extends ReplacementRules {
  /** active upload generations of one Space */
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
