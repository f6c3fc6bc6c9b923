-- The sum of an App over its row, its quotas and its revocations. NULL: the next opening gives it its sum.

ALTER TABLE apps ADD COLUMN record_sum INTEGER;
