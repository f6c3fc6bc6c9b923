-- What was received and is not judged yet, and the commits that each domain keeps: quotas count both. A Space that was purged is not
-- listed until something is stored in it again.

CREATE INDEX uploads_received ON uploads (space, canonical_size) WHERE canonical_size > 0;
CREATE INDEX packs_received ON packs (space, bytes) WHERE state = 0 AND bytes > 0 AND is_discarded = 0;

ALTER TABLE domains ADD COLUMN commit_count INTEGER NOT NULL DEFAULT 0;
UPDATE domains SET commit_count = (SELECT count(*) FROM root_ref_commits WHERE domain = domains.id);

ALTER TABLE spaces ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
