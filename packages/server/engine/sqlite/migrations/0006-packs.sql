-- Packs: objects that hold many nodes. A content row of such a node names the place of its record in one. Older builds would look
-- for those bytes as an object of their own, and take the node for lost.

-- 0 object, 1 inline, 2 packed
ALTER TABLE nodes RENAME COLUMN inline TO storage;
-- NULL: canonical_size
ALTER TABLE nodes ADD COLUMN stored_size INTEGER;

-- The generation of the pack, and where in it; NULL unless the content is such a record.
ALTER TABLE contents ADD COLUMN pack BLOB;
ALTER TABLE contents ADD COLUMN pack_offset INTEGER;
ALTER TABLE contents ADD COLUMN stored_length INTEGER;
ALTER TABLE contents ADD COLUMN codec INTEGER;
CREATE INDEX contents_by_pack ON contents (pack, pack_offset) WHERE pack IS NOT NULL;

CREATE TABLE packs (
  generation BLOB NOT NULL PRIMARY KEY,
  space INTEGER NOT NULL,
  id BLOB NOT NULL,
  -- 0 open, 1 judging, 2 judged
  state INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  url_expires_at INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  asked BLOB NOT NULL,
  -- NULL until the object is known to be complete
  bytes INTEGER,
  published_count INTEGER NOT NULL,
  reserved_bytes INTEGER NOT NULL,
  reserved_nodes INTEGER NOT NULL,
  is_discarded INTEGER NOT NULL,
  -- the content rows that name the pack
  live_records INTEGER NOT NULL DEFAULT 0 CHECK (live_records >= 0),
  live_bytes INTEGER NOT NULL DEFAULT 0 CHECK (live_bytes >= 0),
  -- since when a record is not live; 0: all are
  first_dead_at INTEGER NOT NULL DEFAULT 0,
  -- what compaction would free; 0: it is not to be compacted
  dead_bytes INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX packs_by_id ON packs (space, id);
CREATE INDEX packs_open ON packs (space, asked, created_at) WHERE state = 0;
-- Active ones (url_expires_at > now) and abandoned ones.
CREATE INDEX packs_unjudged ON packs (space, url_expires_at, touched_at) WHERE state < 2;
CREATE INDEX packs_reserving ON packs (space, reserved_bytes, reserved_nodes)
  WHERE reserved_bytes + reserved_nodes > 0;
CREATE INDEX packs_empty ON packs (space) WHERE state = 2 AND is_discarded = 0 AND live_records = 0;
CREATE INDEX packs_discarded ON packs (space, touched_at)
  WHERE state = 2 AND is_discarded = 1 AND live_records = 0;
CREATE INDEX packs_dead ON packs (dead_bytes) WHERE dead_bytes > 0;

CREATE TABLE pack_verdicts (
  id INTEGER PRIMARY KEY,
  generation BLOB NOT NULL UNIQUE,
  hashes BLOB NOT NULL,
  -- JSON
  rejections TEXT NOT NULL,
  broken_byte INTEGER,
  broken_message TEXT
) STRICT;
