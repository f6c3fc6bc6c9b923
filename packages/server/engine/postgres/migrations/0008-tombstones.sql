-- Objects that a walk over the bucket found without a record, by when it found each of them first and last; and short texts that
-- all processes share.
CREATE TABLE tombstones (generation bytea PRIMARY KEY, noted_at bigint NOT NULL, seen_at bigint NOT NULL);
CREATE INDEX tombstones_by_age ON tombstones (seen_at);
CREATE TABLE notes (name text PRIMARY KEY, value text NOT NULL);
