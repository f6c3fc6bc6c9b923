-- Every key begins with the Space (core/space-map.ts), and every transaction keeps to one Space. Hashes and generations are raw
-- bytes. Instants are ms since the epoch. CHECKs are invariants: a violation is fatal. No sequence, no foreign key, no
-- extension: these tables can be spread by `space` over any number of machines.

CREATE TABLE spaces (
  space uuid NOT NULL PRIMARY KEY,
  app_id text COLLATE "C" NOT NULL,
  space_id text COLLATE "C" NOT NULL
);

CREATE TABLE nodes (
  space uuid NOT NULL,
  hash bytea NOT NULL,
  generation bytea NOT NULL,
  size bigint NOT NULL,
  canonical_size bigint NOT NULL,
  lease_started_at bigint NOT NULL,
  lease_expires_at bigint NOT NULL,
  child_ref_count bigint NOT NULL CHECK (child_ref_count >= 0),
  root_ref_count bigint NOT NULL CHECK (root_ref_count >= 0),
  waiting_touched_at bigint NOT NULL,
  claim_held_until bigint NOT NULL,
  held_domain_count integer NOT NULL CHECK (held_domain_count >= 0),
  -- 0 waiting, 1 ready, 2 rotten, 3 claimed
  state smallint NOT NULL,
  inline boolean NOT NULL,
  -- core/eligibility.ts isCollectable, kept here so that candidates are an index range
  collectable boolean NOT NULL,
  -- whether usage_counters.leased_count counts this row; stays so past the lease's end until upkeep takes it out
  lease_counted boolean NOT NULL,
  content_type text COLLATE "C" NOT NULL,
  refs bytea NOT NULL,
  PRIMARY KEY (space, hash)
  -- Every renewed lease leaves a dead row: of many nodes a fifth, the default, would be too many to wait for.
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX nodes_collectable ON nodes (space, lease_expires_at, hash) WHERE collectable;
CREATE INDEX nodes_lease_counted ON nodes (space, lease_expires_at) WHERE lease_counted;
CREATE INDEX nodes_waiting ON nodes (space, waiting_touched_at, hash) WHERE state = 0;
CREATE INDEX nodes_claimed ON nodes (space, claim_held_until, hash) WHERE state = 3;

-- Edges of parents to hashes that have no row. A count of 0 lives only inside a transaction: it is the lock of such a hash.
CREATE TABLE loose_edges (
  space uuid NOT NULL,
  hash bytea NOT NULL,
  count bigint NOT NULL CHECK (count >= 0),
  PRIMARY KEY (space, hash)
);

CREATE TABLE uploads (
  space uuid NOT NULL,
  hash bytea NOT NULL,
  generation bytea NOT NULL,
  created_at bigint NOT NULL,
  url_expires_at bigint NOT NULL,
  touched_at bigint NOT NULL,
  -- the later of the two: an upload is abandoned some time after it
  active_at bigint NOT NULL,
  canonical_size bigint,
  size bigint,
  -- NULL while unfinished, 0 bad, 1 good
  verdict smallint,
  inline boolean,
  rejection_code text COLLATE "C",
  rejection_message text,
  bad_code text COLLATE "C",
  bad_message text,
  content_type text COLLATE "C",
  refs bytea,
  integrity bytea,
  PRIMARY KEY (space, hash)
);

CREATE UNIQUE INDEX uploads_by_generation ON uploads (space, generation);
-- Active ones (url_expires_at > now) and abandoned ones.
CREATE INDEX uploads_by_expiry ON uploads (space, url_expires_at, touched_at, hash);

CREATE TABLE contents (
  space uuid NOT NULL,
  generation bytea NOT NULL,
  canonical_size bigint NOT NULL,
  url_expires_at bigint NOT NULL,
  integrity bytea NOT NULL,
  inline_bytes bytea,
  PRIMARY KEY (space, generation)
);

CREATE TABLE discards (
  space uuid NOT NULL,
  generation bytea NOT NULL,
  due_at bigint NOT NULL,
  url_expires_at bigint NOT NULL,
  PRIMARY KEY (space, generation)
);

CREATE INDEX discards_by_time ON discards (space, due_at, generation);

CREATE TABLE domains (
  space uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  -- pages of revisions below this are gone
  history_floor bigint NOT NULL,
  PRIMARY KEY (space, domain)
);

CREATE TABLE balances (
  space uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  hash bytea NOT NULL,
  balance bigint NOT NULL CHECK (balance <> 0),
  from_revision bigint NOT NULL,
  PRIMARY KEY (space, domain, hash)
);

-- What a balance was in revisions [from_revision, to_revision).
CREATE TABLE balance_history (
  space uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  hash bytea NOT NULL,
  from_revision bigint NOT NULL,
  to_revision bigint NOT NULL,
  balance bigint NOT NULL,
  superseded_at bigint NOT NULL,
  PRIMARY KEY (space, domain, hash, from_revision)
);

CREATE TABLE root_ref_commits (
  space uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  -- UTF-8; not text, which cannot hold U+0000
  request_id bytea NOT NULL,
  payload_digest bytea NOT NULL,
  revision bigint NOT NULL,
  PRIMARY KEY (space, domain, request_id)
);

-- The counters of a Space are the sums over its slots, so that transactions that end at once seldom wait for each other.
CREATE TABLE usage_counters (
  space uuid NOT NULL,
  slot smallint NOT NULL,
  node_count bigint NOT NULL,
  ready_content_bytes bigint NOT NULL,
  ready_stored_bytes bigint NOT NULL,
  waiting_bytes bigint NOT NULL,
  not_ready_node_count bigint NOT NULL,
  leased_count bigint NOT NULL,
  -- no row outside leased_count has a lease that ends after the largest of these
  lease_watermark bigint NOT NULL,
  PRIMARY KEY (space, slot)
) WITH (fillfactor = 50);

-- Background work alone looks across Spaces: what has come due, oldest first. Nothing else may use these indexes.
CREATE INDEX nodes_waiting_due ON nodes (waiting_touched_at, space) WHERE state = 0;
CREATE INDEX nodes_claimed_due ON nodes (claim_held_until, space) WHERE state = 3;
CREATE INDEX uploads_due ON uploads (active_at, space);
CREATE INDEX discards_due ON discards (due_at, space);
CREATE INDEX balance_history_due ON balance_history (superseded_at, space, domain);

CREATE TABLE secrets (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  value bytea NOT NULL
);

-- Who does a kind of background work right now, and how far it has come.
CREATE TABLE background_turns (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  holder text NOT NULL,
  held_until bigint NOT NULL,
  position text
);
