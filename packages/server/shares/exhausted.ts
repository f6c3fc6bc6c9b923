/** The error for a caller whose share is used up. */
import { ApiError } from '@holdfast/protocol';

/** 429: the caller's own part is used up regardless of others, and some of it is released soon. */
export function exhausted(message: string, headers: Readonly<Record<string, string>> = {}): ApiError {
  return new ApiError('RESOURCE_EXHAUSTED', message, { retryAfterSeconds: 1, headers });
}

export const shareUsedUp = (resource: string): ApiError =>
  exhausted(`the share of ${resource} is used up; try again shortly`);
