-- What stores that several processes share need: claims are held by the pass that made them, discards come due, and content
-- remembers until when a client can write its key (0 where our own target judges every PUT).

ALTER TABLE nodes ADD COLUMN claim_held_until INTEGER NOT NULL DEFAULT 0;
DROP INDEX nodes_claimed;
CREATE INDEX nodes_claimed ON nodes (space, claim_held_until) WHERE state = 3;

ALTER TABLE contents ADD COLUMN url_expires_at INTEGER NOT NULL DEFAULT 0;

ALTER TABLE discards ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE discards ADD COLUMN url_expires_at INTEGER NOT NULL DEFAULT 0;
DROP INDEX discards_by_space;
CREATE INDEX discards_by_space ON discards (space, due_at);
