-- Sums for the rows and figures that had none. NULL: the row is older than its sum, and `fill-sums.ts` gives it one.

-- By the sum alone, which is over the Space too: a commit whose row says another Space is found like one whose row says another domain.
CREATE INDEX CONCURRENTLY root_ref_commits_by_name ON root_ref_commits (request_sum) WHERE request_sum IS NOT NULL;
DROP INDEX root_ref_commits_by_sum;
-- count_sum: over the numbers of commits and balances of a domain.
ALTER TABLE domains ADD COLUMN count_sum bigint;
ALTER TABLE usage_counters ADD COLUMN row_sum bigint;
ALTER TABLE tombstones ADD COLUMN row_sum bigint;
ALTER TABLE notes ADD COLUMN row_sum bigint;
ALTER TABLE secrets ADD COLUMN row_sum bigint;
-- Beside the mark that a Space was purged, always the same number.
ALTER TABLE spaces ADD COLUMN purged_sum bigint;
UPDATE spaces SET purged_sum = 20260727 WHERE purged;
