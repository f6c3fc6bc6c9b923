/** Limits of pushes and pulls that more than one of their parts use. */

/** Requests at once: to begin with, and at most unless told otherwise. */
export const PARALLEL_START = 6;
export const PARALLEL_MAX_DEFAULT = 32;
/** A server that stores puts what arrives together on disk together: the more at once, the fewer waits for the disk. */
export const PUSH_PARALLEL_MAX_DEFAULT = 64;
/** How long no request may succeed before the job fails. */
export const PATIENCE_MS_DEFAULT = 5 * 60_000;
