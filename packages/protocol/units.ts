/** Units of time and size. A quantity with a unit is written as a multiple of one of these. */

export const NS_PER_MS = 1_000_000;
export const BIG_NS_PER_MS = 1_000_000n;
export const BIG_NS_PER_S = 1_000_000_000n;

export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

export const KIB_BYTES = 1024;
export const MIB_BYTES = 1024 * KIB_BYTES;
