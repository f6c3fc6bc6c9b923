-- What was received and is not judged yet, and the commits that each domain keeps: quotas count both. A Space that was purged is not
-- listed until something is stored in it again.

CREATE INDEX CONCURRENTLY uploads_received ON uploads (space, canonical_size) WHERE canonical_size > 0;
CREATE INDEX CONCURRENTLY packs_received ON packs (space, bytes) WHERE state = 0 AND bytes > 0 AND NOT discarded;

ALTER TABLE domains ADD COLUMN commit_count bigint NOT NULL DEFAULT 0;
WITH page AS MATERIALIZED (
    SELECT space, domain FROM domains WHERE (space, domain) > (
      (SELECT coalesce(left(place, 36), '00000000-0000-0000-0000-000000000000') FROM holdfast_schema)::uuid,
      (SELECT coalesce(substr(place, 38), '') FROM holdfast_schema) COLLATE "C")
    ORDER BY space, domain LIMIT 500),
  counted AS MATERIALIZED (SELECT space, domain, (SELECT count(*) FROM root_ref_commits AS commits
    WHERE commits.space = page.space AND commits.domain = page.domain) AS commits FROM page),
  changed AS (UPDATE domains SET commit_count = commits FROM counted
    WHERE commits > 0 AND domains.space = counted.space AND domains.domain = counted.domain)
  UPDATE holdfast_schema SET place = last.space || ' ' || last.domain
  FROM (SELECT space, domain FROM page ORDER BY space DESC, domain DESC LIMIT 1) AS last;

ALTER TABLE spaces ADD COLUMN purged boolean NOT NULL DEFAULT false;

-- A quota may be one of commits alone.
ALTER TABLE quotas ADD COLUMN max_commits bigint CHECK (max_commits >= 0);
ALTER TABLE quotas DROP CONSTRAINT quotas_check;
ALTER TABLE quotas ADD CONSTRAINT quotas_check
  CHECK (max_bytes IS NOT NULL OR max_nodes IS NOT NULL OR max_commits IS NOT NULL);
