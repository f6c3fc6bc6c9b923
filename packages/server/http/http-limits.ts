/** Limits of the HTTP layer that are not part of the API; those that a client can meet are in the protocol package. */

/** Concurrent requests of one process, shared among tenants; one Space alone gets nine sixteenths. */
export const REQUESTS_IN_FLIGHT_MAX = 8192;
/** Concurrent uploads of one process, shared likewise: each holds a buffer and an open file. */
export const UPLOADS_IN_FLIGHT_MAX = 910;
/** Bytes of JSON bodies in memory, shared likewise. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Bytes of responses being read or sent, in memory, shared likewise. */
export const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/** The same for responses that can also be sent from a file: one Space alone gets 18 MiB, more than one pull reads at once. */
export const LARGE_ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** Responses up to this size are not counted, because the system buffers them at once. */
export const SMALL_ANSWER_BYTES_MAX = 16 * 1024;
/** JSON bodies up to this size are counted with their request only. */
export const SMALL_BODY_BYTES_MAX = 4 * 1024;
/** A body is cut off if it brings less than this for so long. */
export const BODY_BYTES_PER_SECOND_MIN = 1024;
export const BODY_PACE_SECONDS = 30;
/** `Retry-After` when load is shed, and after a failure of storage. */
export const RETRY_AFTER_SECONDS = 1;

/** Seconds without a byte from an upload's sender before its connection is closed. The runtime counts in steps of 4 s. */
export const UPLOAD_STALL_SECONDS_MAX = 60;
/** Longest PUT, ms, even if bytes keep arriving, because its generation cannot be replaced meanwhile. */
export const UPLOAD_DURATION_MS_MAX = 60 * 60 * 1000;
/** Seconds that a collection, or a lease that validates a direct upload or a pack, may work before its connection counts as dead. */
export const LONG_WORK_SECONDS_MAX = 240;

/** Bytes of copies of large content held by all processes of one server; beyond, responses are 503. */
export const COPIED_BYTES_MAX = 4 * 1024 * 1024 * 1024;
/** Pieces of content in memory: of one process, 64 MiB, and of one response, 8 MiB. */
export const COPYING_PIECES_MAX = 32;

/** Seconds a connection may be silent during an answer or upload. The first head has 12 s; between requests see `--idle-timeout`. */
export const IDLE_SECONDS_MAX = 45;

/** Uploads up to this declared length are read whole: the idle time bounds them, not the time between pieces. */
export const SMALL_UPLOAD_BYTES_MAX = 64 * 1024;
/** Uploads up to this length are read whole too, with more time for the same slowest pace. */
export const WHOLE_UPLOAD_BYTES_MAX = 2 * SMALL_UPLOAD_BYTES_MAX;
export const WHOLE_UPLOAD_SECONDS_MAX = 2 * IDLE_SECONDS_MAX;
