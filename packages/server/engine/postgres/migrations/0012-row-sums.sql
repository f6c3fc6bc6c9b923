-- What every row says of itself is proven when it is read: a sum over its values (row-sums.ts). NULL: the row is older than sums, and gets
-- one with its next write. A server that does not know of sums leaves them wrong.

-- fixed_sum: over what a lease and a count do not change.
ALTER TABLE nodes ADD COLUMN fixed_sum bigint, ADD COLUMN row_sum bigint;
-- place_sum: over the place of the bytes, which compaction changes.
ALTER TABLE contents ADD COLUMN row_sum bigint, ADD COLUMN place_sum bigint;
-- use_sum: over the live records.
ALTER TABLE packs ADD COLUMN row_sum bigint, ADD COLUMN use_sum bigint;
ALTER TABLE pack_verdicts ADD COLUMN row_sum bigint;
ALTER TABLE uploads ADD COLUMN row_sum bigint;
ALTER TABLE loose_edges ADD COLUMN row_sum bigint;
ALTER TABLE discards ADD COLUMN row_sum bigint;
ALTER TABLE domains ADD COLUMN row_sum bigint;
ALTER TABLE balances ADD COLUMN row_sum bigint;
ALTER TABLE balance_history ADD COLUMN row_sum bigint;
-- request_sum: over the name of the commit alone. By it a commit is found whose request id or domain is damaged.
ALTER TABLE root_ref_commits ADD COLUMN row_sum bigint, ADD COLUMN request_sum bigint;
CREATE INDEX CONCURRENTLY root_ref_commits_by_sum ON root_ref_commits (space, request_sum) WHERE request_sum IS NOT NULL;
