CREATE TABLE apps (
  app_id TEXT NOT NULL PRIMARY KEY,
  issuer TEXT NOT NULL UNIQUE,
  audience TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  jwks TEXT,
  jwks_url TEXT,
  -- comma-separated; NULL: every supported algorithm
  algorithms TEXT,
  token_lifetime_ms_max INTEGER NOT NULL CHECK (token_lifetime_ms_max > 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((jwks IS NULL) <> (jwks_url IS NULL))
) STRICT, WITHOUT ROWID;
