-- Objects that a walk over the store of bytes found without a record, by when it found each of them first and last.

CREATE TABLE tombstones (
  generation BLOB NOT NULL PRIMARY KEY,
  noted_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_by_age ON tombstones (seen_at);
