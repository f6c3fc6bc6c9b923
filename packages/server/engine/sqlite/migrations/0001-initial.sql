-- Rows of one Space lie together: every key that is searched by Space begins with its integer id.
-- Hashes and generations are raw bytes. Instants are ms since the epoch. CHECKs are invariants: a violation is fatal.

CREATE TABLE store (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spaces (
  id INTEGER PRIMARY KEY,
  app_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  node_count INTEGER NOT NULL DEFAULT 0 CHECK (node_count >= 0),
  ready_content_bytes INTEGER NOT NULL DEFAULT 0 CHECK (ready_content_bytes >= 0),
  ready_stored_bytes INTEGER NOT NULL DEFAULT 0 CHECK (ready_stored_bytes >= 0),
  waiting_bytes INTEGER NOT NULL DEFAULT 0 CHECK (waiting_bytes >= 0),
  not_ready_node_count INTEGER NOT NULL DEFAULT 0 CHECK (not_ready_node_count >= 0),
  -- rows whose lease expires after lease_watermark
  leased_count INTEGER NOT NULL DEFAULT 0 CHECK (leased_count >= 0),
  lease_watermark INTEGER NOT NULL DEFAULT 0,
  UNIQUE (app_id, space_id)
) STRICT;

CREATE INDEX spaces_leased ON spaces (id) WHERE leased_count > 0;

CREATE TABLE nodes (
  space INTEGER NOT NULL,
  hash BLOB NOT NULL,
  -- 0 waiting, 1 ready, 2 rotten, 3 claimed
  state INTEGER NOT NULL,
  size INTEGER NOT NULL,
  canonical_size INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  refs BLOB NOT NULL,
  generation BLOB NOT NULL,
  inline INTEGER NOT NULL,
  lease_started_at INTEGER NOT NULL,
  lease_expires_at INTEGER NOT NULL,
  child_ref_count INTEGER NOT NULL CHECK (child_ref_count >= 0),
  root_ref_count INTEGER NOT NULL CHECK (root_ref_count >= 0),
  held_domain_count INTEGER NOT NULL CHECK (held_domain_count >= 0),
  waiting_touched_at INTEGER NOT NULL,
  -- core/eligibility.ts isCollectable, kept here so that candidates are an index range
  collectable INTEGER NOT NULL,
  PRIMARY KEY (space, hash)
) STRICT, WITHOUT ROWID;

-- Both the candidates (collectable = 1) and the leases between watermark and now (either flag). The hash comes with it.
CREATE INDEX nodes_by_lease ON nodes (space, collectable, lease_expires_at);
CREATE INDEX nodes_waiting ON nodes (space, waiting_touched_at) WHERE state = 0;
CREATE INDEX nodes_claimed ON nodes (space) WHERE state = 3;

-- Edges of parents to hashes that have no row.
CREATE TABLE loose_edges (
  space INTEGER NOT NULL,
  hash BLOB NOT NULL,
  count INTEGER NOT NULL CHECK (count > 0),
  PRIMARY KEY (space, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE uploads (
  space INTEGER NOT NULL,
  hash BLOB NOT NULL,
  generation BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  url_expires_at INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  rejection_code TEXT,
  rejection_message TEXT,
  -- NULL while unfinished, 0 bad, 1 good
  verdict INTEGER,
  bad_code TEXT,
  bad_message TEXT,
  canonical_size INTEGER,
  size INTEGER,
  content_type TEXT,
  refs BLOB,
  integrity BLOB,
  inline INTEGER,
  PRIMARY KEY (space, hash)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX uploads_by_generation ON uploads (generation);
-- Active ones (url_expires_at > now) and abandoned ones.
CREATE INDEX uploads_by_expiry ON uploads (space, url_expires_at, touched_at);

-- Inserts go to the end of both trees: ids grow, and a generation begins with its creation time. Large values want a table
-- with row ids: a WITHOUT ROWID table read 4 KiB twice as slowly.
CREATE TABLE contents (
  id INTEGER PRIMARY KEY,
  generation BLOB NOT NULL UNIQUE,
  space INTEGER NOT NULL,
  canonical_size INTEGER NOT NULL,
  integrity BLOB NOT NULL,
  inline_bytes BLOB
) STRICT;

CREATE TABLE discards (
  generation BLOB NOT NULL PRIMARY KEY,
  space INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX discards_by_space ON discards (space);

CREATE TABLE domains (
  id INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  domain TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 0,
  -- pages of revisions below this are gone
  history_floor INTEGER NOT NULL DEFAULT 0,
  UNIQUE (space, domain)
) STRICT;

CREATE TABLE balances (
  domain INTEGER NOT NULL,
  hash BLOB NOT NULL,
  balance INTEGER NOT NULL CHECK (balance <> 0),
  from_revision INTEGER NOT NULL,
  PRIMARY KEY (domain, hash)
) STRICT, WITHOUT ROWID;

-- What a balance was in revisions [from_revision, to_revision).
CREATE TABLE balance_history (
  domain INTEGER NOT NULL,
  hash BLOB NOT NULL,
  from_revision INTEGER NOT NULL,
  to_revision INTEGER NOT NULL,
  balance INTEGER NOT NULL,
  superseded_at INTEGER NOT NULL,
  PRIMARY KEY (domain, hash, from_revision)
) STRICT, WITHOUT ROWID;

CREATE INDEX balance_history_by_age ON balance_history (superseded_at, domain, to_revision);

CREATE TABLE root_ref_commits (
  domain INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  payload_digest BLOB NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (domain, request_id)
) STRICT, WITHOUT ROWID;
