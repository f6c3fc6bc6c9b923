-- Quotas of commits. A CHECK cannot be changed, so the table is made anew.

CREATE TABLE quotas_with_commits (
  app_id TEXT NOT NULL,
  -- '': all Spaces of the App together
  space_id TEXT NOT NULL,
  max_bytes INTEGER CHECK (max_bytes >= 0),
  max_nodes INTEGER CHECK (max_nodes >= 0),
  max_commits INTEGER CHECK (max_commits >= 0),
  PRIMARY KEY (app_id, space_id),
  CHECK (max_bytes IS NOT NULL OR max_nodes IS NOT NULL OR max_commits IS NOT NULL)
) STRICT, WITHOUT ROWID;

INSERT INTO quotas_with_commits (app_id, space_id, max_bytes, max_nodes)
  SELECT app_id, space_id, max_bytes, max_nodes FROM quotas;
DROP TABLE quotas;
ALTER TABLE quotas_with_commits RENAME TO quotas;
