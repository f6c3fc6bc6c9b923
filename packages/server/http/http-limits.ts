/** Limits of the HTTP layer that are no part of the interface; those that a client can meet are in the protocol package. */

/** Requests being answered at once by one process; the next ones are told to come back (429). */
export const REQUESTS_IN_FLIGHT_MAX = 4096;
/** Uploads being received at once by one process: each holds a buffer and an open file. */
export const UPLOADS_IN_FLIGHT_MAX = 512;
/** What a caller is told to wait when load is shed. */
export const SHED_RETRY_AFTER_SECONDS = 1;
/** What a caller is told to wait after a failure of storage. */
export const STORAGE_RETRY_AFTER_SECONDS = 1;

/**
 * Seconds without a byte from an upload's sender before its connection is closed. The runtime counts in steps of 4 s.
 */
export const UPLOAD_STALL_SECONDS_MAX = 60;
/** ms one PUT may take in all, however steadily it drips: a receiving generation cannot be replaced meanwhile. */
export const UPLOAD_DURATION_MS_MAX = 60 * 60 * 1000;
/** Seconds a collection pass of the largest size may work before its connection counts as dead; 0 = no bound. */
export const GC_SECONDS_MAX = 240;
/** Seconds a lease may take to validate what a client has put into the store itself, before its connection counts as dead. */
export const VALIDATION_SECONDS_MAX = 240;

/** Bytes of copies of large content at once by one process, on its way to readers; the next ones are told to come back (503). */
export const COPIED_BYTES_MAX = 4 * 1024 * 1024 * 1024;
/** The same in the system's memory, where the disk has no room. */
export const COPIED_IN_MEMORY_BYTES_MAX = 256 * 1024 * 1024;
/** Pieces of content in memory at once by one process, 64 MiB, and by one answer, 8 MiB. */
export const COPYING_PIECES_MAX = 32;
export const COPYING_PIECES_OF_ANSWER_MAX = 4;

/** How long a browser may remember the answer to a preflight. */
export const PREFLIGHT_SECONDS = 7200;

/**
 * Seconds a connection may be silent: between requests, under a JSON body, before an answer. The runtime closes a first head
 * after 12 s; the head of a later request on the same connection has this long, which keeps it under the 60 s of docs/api.md,
 * Limits. Uploads and collection passes have times of their own.
 */
export const IDLE_SECONDS_MAX = 45;

/** Uploads declared no larger are read whole: the idle time bounds them, not their pieces. */
export const SMALL_UPLOAD_BYTES_MAX = 64 * 1024;
/** So are these, with more time: at the same slowest pace. */
export const WHOLE_UPLOAD_BYTES_MAX = 2 * SMALL_UPLOAD_BYTES_MAX;
export const WHOLE_UPLOAD_SECONDS_MAX = 2 * IDLE_SECONDS_MAX;
