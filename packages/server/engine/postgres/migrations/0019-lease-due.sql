-- Leases are looked for by a bound that lies at or before their end. A renewal leaves it as it is, so it changes no indexed column and is
-- HOT if its page has room; upkeep raises it when it comes due. 0, of older rows: looked at once, soon.

ALTER TABLE nodes ADD COLUMN lease_due_at bigint NOT NULL DEFAULT 0;
ALTER TABLE nodes SET (fillfactor = 90);
CREATE INDEX CONCURRENTLY nodes_collectable_due ON nodes (space, lease_due_at, hash) WHERE collectable;
CREATE INDEX CONCURRENTLY nodes_leased_due ON nodes (space, lease_due_at) WHERE lease_counted;
DROP INDEX nodes_collectable;
DROP INDEX nodes_lease_counted;
