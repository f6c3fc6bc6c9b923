-- Packs of which a record has been dead for long: compaction takes the oldest first.

CREATE INDEX packs_dying ON packs (first_dead_at) WHERE dead_bytes > 0;
