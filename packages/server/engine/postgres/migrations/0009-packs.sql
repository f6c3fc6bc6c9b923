-- Packs: stored objects that hold many nodes (docs/design.md, Packs).

-- stored_size NULL: the canonical size. So no row that was there before is written again.
ALTER TABLE nodes ADD COLUMN stored_size bigint, ADD COLUMN packed boolean NOT NULL DEFAULT false;

-- Where the record of a pack is; NULL: the bytes are an object of their own.
ALTER TABLE contents ADD COLUMN pack bytea, ADD COLUMN pack_offset bigint, ADD COLUMN stored_length bigint,
  ADD COLUMN codec smallint;
CREATE INDEX CONCURRENTLY contents_by_pack ON contents (space, pack, pack_offset) WHERE pack IS NOT NULL;

CREATE TABLE packs (
  space uuid NOT NULL,
  generation bytea NOT NULL,
  id bytea NOT NULL,
  -- grows with each change but those of the live records, so that a change is made to the row that was read
  version bigint NOT NULL,
  created_at bigint NOT NULL,
  url_expires_at bigint NOT NULL,
  touched_at bigint NOT NULL,
  bytes bigint,
  published_count bigint NOT NULL,
  reserved_bytes bigint NOT NULL CHECK (reserved_bytes >= 0),
  reserved_nodes bigint NOT NULL CHECK (reserved_nodes >= 0),
  -- the content rows that name the pack, and the stored bytes of their records
  live_records bigint NOT NULL CHECK (live_records >= 0),
  live_bytes bigint NOT NULL CHECK (live_bytes >= 0),
  -- since when a record is not live; 0: all are
  first_dead_at bigint NOT NULL,
  -- from when on the sweep has something to do with it, as far as touched_at decides; NULL: nothing
  sweep_at bigint GENERATED ALWAYS AS (CASE
    WHEN state < 2 THEN greatest(touched_at, url_expires_at)
    WHEN live_records > 0 THEN NULL
    WHEN discarded THEN touched_at
    ELSE 0 END) STORED,
  -- what compaction would free: 8 bytes are its header, 44 that of each record; 0: it is not to be compacted
  dead_bytes bigint GENERATED ALWAYS AS (CASE
    WHEN state = 2 AND NOT discarded AND live_records > 0 AND first_dead_at > 0
    THEN greatest(bytes - 8 - 44 * live_records - live_bytes, 0)
    ELSE 0 END) STORED,
  -- 0 open, 1 judging, 2 judged
  state smallint NOT NULL,
  discarded boolean NOT NULL,
  asked bytea NOT NULL,
  PRIMARY KEY (space, generation)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX packs_by_id ON packs (space, id);
CREATE INDEX packs_by_asked ON packs (space, asked, created_at) WHERE state = 0;
-- Each counts as an active upload.
CREATE INDEX packs_active ON packs (space, url_expires_at) WHERE state < 2;
CREATE INDEX packs_reserving ON packs (space) WHERE reserved_bytes > 0 OR reserved_nodes > 0;
CREATE INDEX packs_to_sweep ON packs (space, sweep_at) WHERE sweep_at IS NOT NULL;

CREATE TABLE pack_verdicts (
  space uuid NOT NULL,
  generation bytea NOT NULL,
  hashes bytea NOT NULL,
  -- JSON
  rejections text NOT NULL,
  broken_byte bigint,
  broken_message text,
  PRIMARY KEY (space, generation)
);

-- Background work alone looks across Spaces.
CREATE INDEX packs_due ON packs (sweep_at, space) WHERE sweep_at IS NOT NULL;
CREATE INDEX packs_dying ON packs (first_dead_at) WHERE dead_bytes > 0;
CREATE INDEX packs_by_gain ON packs (dead_bytes) WHERE dead_bytes * 2 > bytes;
