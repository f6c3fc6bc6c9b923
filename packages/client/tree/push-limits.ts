/** Limits of a push that more than one of its parts use. */

/** Requests at once: to begin with, and at most unless told otherwise. */
export const PARALLEL_START = 6;
export const PARALLEL_MAX_DEFAULT = 32;
/** How long no request may succeed before the job fails. */
export const PATIENCE_MS_DEFAULT = 5 * 60_000;
