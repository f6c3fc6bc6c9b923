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

/** Content up to here is answered from memory (at most 8 MiB of a node in memory). */
export const BUFFERED_ANSWER_BYTES_MAX = 8 * 1024 * 1024;
/** Such answers at once by one process, gathered or being sent: 256 MiB. The next ones are put together in a file. */
export const BUFFERED_ANSWERS_MAX = 32;
/** Bytes of answers in files at once by one process, being put together or being sent; the next ones are told to come back (503). */
export const SPOOLED_BYTES_MAX = 4 * 1024 * 1024 * 1024;
/** Content up to here is answered from memory whatever else is under way. */
export const SMALL_ANSWER_BYTES_MAX = 64 * 1024;

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
