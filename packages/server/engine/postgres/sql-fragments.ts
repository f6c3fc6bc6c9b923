/** Parts that statements share. */

export const columnsOf = (table: string, columns: string): string =>
  columns
    .split(', ')
    .map((column) => `${table}.${column}`)
    .join(', ');

/**
 * `given`: lists as rows, with the Space ($1) as a column of theirs. A table that is joined by its key is read by one seek per row: no
 * condition names the Space by a constant, so no plan reads a Space whole, however few rows PostgreSQL expects there. In order, so that two
 * that change the same rows never wait for each other in a circle.
 */
export const given = (columns: string, arrays: string): string =>
  `given AS MATERIALIZED (SELECT $1::uuid AS space, list.* FROM unnest(${arrays}) AS list (${columns}) ORDER BY 2)`;
/** The rows that a statement found, as the lists of `given`, because PostgreSQL expects few rows of a list, whatever its length. */
export const arraysOf = (table: string, columns: string): string =>
  columns
    .split(', ')
    .map((column) => `ARRAY(SELECT ${column} FROM ${table})`)
    .join(', ');
/** `rows`: what is joined, `given`, or what a statement has made of it */
export const isGiven = (table: string, key: string, rows = 'given'): string =>
  // An array, by which PostgreSQL neither hashes nor merges: a small table, too, would be read whole, with the pages of it that are
  // damaged.
  [
    `${table}.space = ANY (ARRAY[${rows}.space])`,
    ...key.split(', ').map((column) => `${table}.${column} = ${rows}.${column}`),
  ].join(' AND ');

/**
 * Selects `found` for each row of the lists, in their order, by one seek each. `found` must lock or have an OFFSET, because PostgreSQL
 * plans any other subquery as it likes. Use it for rows that are only read or locked: it costs much less than `given`.
 */
export const seek = (columns: string, arrays: string, found: string): string =>
  `SELECT found.* FROM unnest(${arrays}) AS given (${columns}) CROSS JOIN LATERAL (${found}) AS found`;

/** Makes one seek per row, however many rows the planner expects. */
export const spaceNamesOf = (table: string): string =>
  `(SELECT app_id FROM spaces WHERE spaces.space = ${table}.space) AS app_id, (SELECT space_id FROM spaces WHERE spaces.space = ${table}.space) AS space_id`;

/** `walk`: up to $2 Spaces behind $1 with a row of `table`, by one seek for each. */
export const walkOf = (table: string, condition: string): string => {
  const next = (after: string, step: string): string =>
    `SELECT space, ${step} FROM ${table} WHERE ${condition} AND space > ${after} ORDER BY space LIMIT 1`;
  return `RECURSIVE walk (space, step) AS ((${next('$1', '1')}) UNION ALL
      SELECT next.* FROM walk CROSS JOIN LATERAL (${next('walk.space', 'walk.step + 1')}) AS next WHERE walk.step < $2)`;
};

/** The instant at which this transaction began, ms: the same for all its statements. */
const NOW = 'floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint';
/** `parameter`: the time of a test's clock, or NULL */
export const nowOr = (parameter: string): string => `coalesce(${parameter}::bigint, ${NOW})`;

/** Fails (division by zero) unless all locked rows were changed. On the server, because the COMMIT is already under way. */
export const guarded = (change: string, expected: string): string =>
  `WITH changed AS (${change} RETURNING 1) SELECT 1 / (count(*) = ${expected})::integer AS guard FROM changed`;

/** Fails (logarithm of zero) unless all rows of `changed` were changed. They were read without a lock, so the body runs again. */
export const unlessChanged = (expected: string): string =>
  `SELECT ln((count(*) = ${expected})::integer) AS guard FROM changed`;
