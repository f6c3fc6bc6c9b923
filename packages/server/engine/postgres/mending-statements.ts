/** Statements of core/upkeep-ports.ts. */
import { arraysOf, given, isGiven } from './sql-fragments.ts';

export const MENDING_STATEMENTS = {
  /** Counts the holders of the hash $2: refs in all rows of the Space, and its balances. */
  countHolders: `SELECT (SELECT coalesce(sum((SELECT count(*) FROM generate_series(1, length(refs), 32) AS place
      WHERE substring(refs FROM place FOR 32) = $2)), 0) FROM nodes WHERE space = $1 AND position($2::bytea IN refs) > 0)::bigint AS children,
    coalesce(sum(balance), 0)::bigint AS roots, count(*) AS domains
    FROM domains JOIN balances USING (space, domain) WHERE space = $1 AND hash = $2`,
  /** Finds the nodes among $2 that a balance names. Only 32 domains are asked, because a Space may have a domain for each user. */
  findBalanced: `WITH pairs AS MATERIALIZED (SELECT domain, hash
      FROM unnest(ARRAY(SELECT domain FROM domains WHERE space = $1 ORDER BY domain LIMIT 32)) AS each (domain) CROSS JOIN unnest($2::bytea[]) AS list (hash)),
    ${given('domain, hash', arraysOf('pairs', 'domain, hash'))}
    SELECT given.hash, given.hash AS near FROM given JOIN balances ON ${isGiven('balances', 'domain, hash')}`,
  /** Seeks each neighbour that differs in the first 32 bits; one seek finds all others, because hardly any other node has the same first bytes. */
  findNearOnes: `WITH pairs AS MATERIALIZED (SELECT list.hash AS asked, set_bit(list.hash, bit, 1 - get_bit(list.hash, bit)) AS hash
      FROM unnest($2::bytea[]) AS list (hash) CROSS JOIN generate_series(0, 31) AS bit),
    ${given('hash, asked', arraysOf('pairs', 'hash, asked'))}
    SELECT given.asked AS hash, nodes.hash AS near FROM given JOIN nodes ON ${isGiven('nodes', 'hash')}
    UNION ALL SELECT asked.hash, page.hash FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (
      SELECT nodes.hash FROM nodes WHERE nodes.space = $1 AND nodes.hash BETWEEN substring(asked.hash FOR 4)
        AND substring(asked.hash FOR 4) || decode(repeat('ff', 30), 'hex') AND nodes.hash <> asked.hash OFFSET 0) AS page`,
} as const;

/** Statements that look at other Spaces too. */
export const NEAR_SPACE_STATEMENTS = {
  /** $1 keys that no Space has, $2 hashes */
  findInNearSpaces: `WITH near AS MATERIALIZED (SELECT list.space FROM unnest($1::uuid[]) AS list (space)
      WHERE EXISTS (SELECT FROM nodes WHERE nodes.space = list.space ORDER BY hash OFFSET 0)),
    pairs AS MATERIALIZED (SELECT space, hash FROM near CROSS JOIN unnest($2::bytea[]) AS list (hash)),
    given AS MATERIALIZED (SELECT * FROM unnest(${arraysOf('pairs', 'space, hash')}) AS list (space, hash))
    SELECT given.hash, given.hash AS near FROM given JOIN nodes ON ${isGiven('nodes', 'hash')}`,
} as const;
