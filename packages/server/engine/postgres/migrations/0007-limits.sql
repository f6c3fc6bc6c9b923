-- Quotas and revocations of Apps, and since when Apps that are suspended or removed have not been served.

CREATE TABLE quotas (
  app_id text COLLATE "C" NOT NULL,
  -- '': all Spaces of the App together
  space_id text COLLATE "C" NOT NULL,
  max_bytes bigint CHECK (max_bytes >= 0),
  max_nodes bigint CHECK (max_nodes >= 0),
  PRIMARY KEY (app_id, space_id),
  CHECK (max_bytes IS NOT NULL OR max_nodes IS NOT NULL)
);

CREATE TABLE revocations (
  app_id text COLLATE "C" NOT NULL,
  -- the claim whose value is refused
  claim text COLLATE "C" NOT NULL CHECK (claim IN ('jti', 'sub')),
  -- SHA-256 of the value: an index takes no text as long as a claim may be
  value_digest bytea NOT NULL,
  value text COLLATE "C" NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (app_id, claim, value_digest)
);

CREATE TABLE app_stops (
  app_id text COLLATE "C" NOT NULL PRIMARY KEY,
  stopped_at bigint NOT NULL
);
