/** SQL about the counters of Spaces, in slots. `$1` is the Space. */
import { COUNTER_COLUMNS as COUNTERS, SLOTS_PROOF, sumOfCounters } from './row-sums.ts';

export const COUNTER_COLUMNS = COUNTERS.join(', ');
/** As sumSlots reads them. */
export const SLOT_COLUMNS = `slot, ${COUNTER_COLUMNS}, lease_watermark, row_sum`;
export const COUNTER_SUMS = COUNTERS.map((column) => `coalesce(sum(${column}), 0)::bigint AS ${column}`).join(
  ', ',
);
/** Of all slots of a Space, and what `areSlotsProven` compares. */
export const SLOT_SUMS = `${COUNTER_SUMS}, ${SLOTS_PROOF}`;
/** Adds to one slot of the counters. No watermark, however wrong, is too large or small for the sum. */
export const ADD_TO_SLOT = `ON CONFLICT (space, slot) DO UPDATE SET ${COUNTERS.map(
  (column) => `${column} = usage_counters.${column} + excluded.${column}`,
).join(', ')}, lease_watermark = greatest(usage_counters.lease_watermark, excluded.lease_watermark),
      row_sum = usage_counters.row_sum + ${sumOfCounters(
        (column) => `excluded.${column}`,
        'greatest(excluded.lease_watermark - greatest(usage_counters.lease_watermark, 0), 0)',
      )}`;
/** `sum`: of the empty slot */
export const countLeases = (slot: string, sum: string, count: string, watermark: string): string =>
  `INSERT INTO usage_counters (space, slot, ${COUNTER_COLUMNS}, lease_watermark, row_sum)
      SELECT $1::uuid, ${slot}::smallint, 0, 0, 0, 0, 0, ${count}, ${watermark},
        ${sum}::bigint + ${sumOfCounters((column) => (column === 'leased_count' ? count : '0'), watermark)}`;
