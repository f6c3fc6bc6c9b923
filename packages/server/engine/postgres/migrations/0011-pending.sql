-- What was received and is not judged yet, and the commits that each domain keeps: quotas count both. A Space that was purged is not
-- listed until something is stored in it again.

CREATE INDEX uploads_received ON uploads (space, canonical_size) WHERE canonical_size > 0;
CREATE INDEX packs_received ON packs (space, bytes) WHERE state = 0 AND bytes > 0 AND NOT discarded;

ALTER TABLE domains ADD COLUMN commit_count bigint NOT NULL DEFAULT 0;
UPDATE domains SET commit_count = counted.commits
  FROM (SELECT space, domain, count(*) AS commits FROM root_ref_commits GROUP BY space, domain) AS counted
  WHERE domains.space = counted.space AND domains.domain = counted.domain;

ALTER TABLE spaces ADD COLUMN purged boolean NOT NULL DEFAULT false;

-- A quota may be one of commits alone.
ALTER TABLE quotas ADD COLUMN max_commits bigint CHECK (max_commits >= 0);
ALTER TABLE quotas DROP CONSTRAINT quotas_check;
ALTER TABLE quotas ADD CONSTRAINT quotas_check
  CHECK (max_bytes IS NOT NULL OR max_nodes IS NOT NULL OR max_commits IS NOT NULL);
