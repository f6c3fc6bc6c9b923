/** SQL about what all Spaces of an App hold (app-totals.ts), and what one Space holds beside its counters. */
import { SLOT_SUMS } from './counter-statements.ts';
import { nowOr } from './sql-fragments.ts';

/** Bytes received in one Space that are not judged, the room that packs have reserved for records they will publish, and its commits. */
export const holdingsOf = (space: string): string =>
  `((SELECT coalesce(sum(canonical_size), 0) FROM uploads WHERE uploads.space = ${space} AND canonical_size > 0)
    + (SELECT coalesce(sum(bytes), 0) FROM packs WHERE packs.space = ${space} AND state = 0 AND bytes > 0 AND NOT discarded)
    + (SELECT coalesce(sum(reserved_bytes), 0) FROM packs WHERE packs.space = ${space}
        AND (reserved_bytes > 0 OR reserved_nodes > 0)))::bigint AS pending_bytes,
   (SELECT coalesce(sum(commit_count), 0) FROM domains WHERE domains.space = ${space})::bigint AS commit_rows`;

/** In the order of their table, and of `holdfast_app_sum`. */
export const TOTALS = [
  ...['space_count', 'node_count', 'ready_content_bytes', 'ready_stored_bytes', 'waiting_bytes'],
  ...['not_ready_node_count', 'pending_bytes', 'commit_rows'],
];
const listOf = (termOf: (column: string, index: number) => string): string => TOTALS.map(termOf).join(', ');
const isProven = (table: string, since: string): string =>
  `${table}.row_sum = holdfast_app_sum(${table}.app_id, ${since}, ${listOf((column) => `${table}.${column}`)})`;
export const IS_TOTAL_PROVEN = isProven('app_totals', 'app_totals.counting_since');
export const IS_CHANGE_PROVEN = isProven('app_changes', '0');
const sumFor = (app: string, since: string, termOf: (column: string, index: number) => string): string =>
  `holdfast_app_sum(${app}, ${since}, ${listOf(termOf)})`;

const NOW = nowOr('NULL');
/** A count that began earlier was left by its process: another begins. */
const GIVEN_UP_MS = 10 * 60_000;
/** Changes are kept no longer for a count. */
const KEPT_FOR_COUNT_MS = 60 * 60_000;

export const APP_TOTAL_STATEMENTS = {
  /** $1 App. Only what is proven is known. */
  findAppTotals: `SELECT known.is_known, changes, ${listOf((column) => `CASE WHEN known.is_known THEN (app_totals.${column} + coalesce(changed.${column}, 0))::bigint END AS ${column}`)}
    FROM app_totals CROSS JOIN LATERAL (
      SELECT count(*) AS changes, coalesce(bool_and(${IS_CHANGE_PROVEN}), true) AS are_proven, ${listOf((column) => `sum(${column}) AS ${column}`)}
      FROM app_changes WHERE app_changes.app_id = $1 COLLATE "C") AS changed
    CROSS JOIN LATERAL (SELECT counting_since = 0 AND are_proven AND ${IS_TOTAL_PROVEN} AS is_known) AS known
    WHERE app_totals.app_id = $1 COLLATE "C"`,
  /** $1 App. No row: another process counts. */
  beginAppCount: `INSERT INTO app_totals VALUES ($1, ${NOW}, ${listOf(() => '0')}, ${sumFor('$1', NOW, () => '0')})
    ON CONFLICT (app_id) DO UPDATE SET counting_since = excluded.counting_since, row_sum = excluded.row_sum,
      ${listOf((column) => `${column} = excluded.${column}`)}
    WHERE app_totals.counting_since = 0 OR app_totals.counting_since < excluded.counting_since - ${GIVEN_UP_MS} OR NOT (${IS_TOTAL_PROVEN})
    RETURNING counting_since AS since`,
  /** $1 App, $2 since when it was counted, then what was found: in the snapshot of the count, with whose changes it ends. */
  keepAppCount: `WITH gone AS (DELETE FROM app_changes WHERE app_id = $1 COLLATE "C")
    UPDATE app_totals SET counting_since = 0, ${listOf((column, index) => `${column} = $${index + 3}::bigint`)},
      row_sum = ${sumFor('app_id', '0', (_, index) => `$${index + 3}::bigint`)}
    WHERE app_id = $1 COLLATE "C" AND counting_since = $2::bigint AND counting_since > ${NOW} - ${KEPT_FOR_COUNT_MS}`,
  /** $1 App, $2 since when it is counted */
  endAppCount: 'DELETE FROM app_totals WHERE app_id = $1 COLLATE "C" AND counting_since = $2::bigint',
  /** $1 App to begin at, $2 rows. Changes of uncounted Apps go, unless a count runs. A row is in one part only, so its place names it. */
  foldAppChanges: `WITH page AS MATERIALIZED (
      SELECT app_changes.ctid AS place FROM app_changes
      WHERE app_changes.app_id >= $1 COLLATE "C" AND ${IS_CHANGE_PROVEN}
        AND NOT EXISTS (SELECT FROM app_totals WHERE app_totals.app_id = app_changes.app_id
          AND app_totals.counting_since > ${NOW} - ${KEPT_FOR_COUNT_MS} OFFSET 0)
      ORDER BY app_changes.app_id LIMIT $2 FOR UPDATE OF app_changes SKIP LOCKED),
    gone AS (DELETE FROM app_changes WHERE ctid = ANY (ARRAY(SELECT place FROM page)) RETURNING *),
    summed AS MATERIALIZED (
      SELECT app_id, ${listOf((column) => `sum(${column})::bigint AS ${column}`)} FROM gone GROUP BY app_id ORDER BY app_id),
    folded AS (UPDATE app_totals SET ${listOf((column) => `${column} = app_totals.${column} + summed.${column}`)},
        row_sum = app_totals.row_sum + ${sumFor(`''`, '0', (column) => `summed.${column}`)} - ${sumFor(`''`, '0', () => '0')}
      FROM summed WHERE app_totals.app_id = ANY (ARRAY[summed.app_id]) AND counting_since = 0 AND ${IS_TOTAL_PROVEN})
    SELECT count(*) AS count FROM gone`,
  /** $1 App, $2 the Space after which to look, $3 how many */
  sumCounters: `WITH page AS MATERIALIZED (
      SELECT space FROM spaces WHERE app_id = $1 COLLATE "C" AND space > $2::uuid ORDER BY space LIMIT $3)
    SELECT (SELECT space FROM page ORDER BY space DESC LIMIT 1) AS last, count(*) AS space_count,
      string_agg(page.space || ' ' || sums.slots, ',') AS slots_of, sum(sums.slot_sums::numeric)::text AS slot_sums,
      sum(sums.slot_watermarks::numeric)::text AS slot_watermarks, bool_or(sums.is_older) AS is_older,
      coalesce(sum(sums.leased_count), 0)::bigint AS leased_count,
      ${TOTALS.slice(1)
        .map((column) => `coalesce(sum(sums.${column}), 0)::bigint AS ${column}`)
        .join(', ')} FROM page CROSS JOIN LATERAL (
      SELECT ${SLOT_SUMS}, ${holdingsOf('page.space')}
      FROM usage_counters WHERE usage_counters.space = page.space) AS sums`,
} as const;
