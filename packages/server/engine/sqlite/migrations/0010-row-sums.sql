-- The sum of a row over its values (core/rows/). Older builds would change rows without it. `fill-sums.ts` fills it in for rows that are
-- there already.

ALTER TABLE nodes ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contents ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE packs ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pack_verdicts ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spaces ADD COLUMN name_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spaces ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE loose_edges ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE discards ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE domains ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE balances ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE balance_history ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE root_ref_commits ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
-- A second key of a commit: a wrong bit in the first one must not make it apply twice.
ALTER TABLE root_ref_commits ADD COLUMN request_key INTEGER NOT NULL DEFAULT 0;
CREATE INDEX root_ref_commits_by_key ON root_ref_commits (request_key);

-- A balance whose row says another domain is missed by the count of its own.
ALTER TABLE domains ADD COLUMN balance_count INTEGER NOT NULL DEFAULT 0;
UPDATE domains SET balance_count = (SELECT count(*) FROM balances WHERE domain = domains.id);
