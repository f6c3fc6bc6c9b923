-- A Space holds as many rows as the whole table, as far as plans go: what the next ANALYZE finds to be true of most Spaces is wrong of one
-- that is large, and a plan that reads a Space whole is never right for a few rows of it.

ALTER TABLE nodes ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE loose_edges ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE uploads ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE contents ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE packs ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE pack_verdicts ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE discards ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE domains ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE balances ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE balance_history ALTER COLUMN space SET (n_distinct = 1);
ALTER TABLE root_ref_commits ALTER COLUMN space SET (n_distinct = 1);
