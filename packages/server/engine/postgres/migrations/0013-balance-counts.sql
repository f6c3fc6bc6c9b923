-- How many balances a domain has: one whose row says another domain or Space is missed by it. NULL: nobody counts, as in a domain that is
-- older than this, or whose rows were copied or purged.
ALTER TABLE domains ADD COLUMN balance_count bigint;
