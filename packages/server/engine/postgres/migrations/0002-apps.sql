CREATE TABLE apps (
  app_id text COLLATE "C" NOT NULL PRIMARY KEY,
  issuer text NOT NULL,
  -- SHA-256 of the issuer: an index takes no text as long as an issuer may be
  issuer_digest bytea NOT NULL UNIQUE,
  audience text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  jwks text,
  jwks_url text,
  -- comma-separated; NULL: every supported algorithm
  algorithms text,
  token_lifetime_ms_max bigint NOT NULL CHECK (token_lifetime_ms_max > 0),
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  CHECK ((jwks IS NULL) <> (jwks_url IS NULL))
);

-- One row. Grows with every change of apps, in the same transaction: processes look at it to see whether to read them again.
CREATE TABLE apps_version (
  id smallint NOT NULL PRIMARY KEY CHECK (id = 1),
  version bigint NOT NULL
);

INSERT INTO apps_version (id, version) VALUES (1, 0);
