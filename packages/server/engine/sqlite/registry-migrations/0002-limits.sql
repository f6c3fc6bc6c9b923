-- Quotas and revocations of Apps, and since when Apps that are suspended or removed have not been served.

CREATE TABLE quotas (
  app_id TEXT NOT NULL,
  -- '': all Spaces of the App together
  space_id TEXT NOT NULL,
  max_bytes INTEGER CHECK (max_bytes >= 0),
  max_nodes INTEGER CHECK (max_nodes >= 0),
  PRIMARY KEY (app_id, space_id),
  CHECK (max_bytes IS NOT NULL OR max_nodes IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE revocations (
  app_id TEXT NOT NULL,
  -- the claim whose value is refused
  claim TEXT NOT NULL CHECK (claim IN ('jti', 'sub')),
  value TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (app_id, claim, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE app_stops (
  app_id TEXT NOT NULL PRIMARY KEY,
  stopped_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
