-- Whoever opens an upload holds one of these of its Space until it commits, so that there are never more at once than permits.
-- The rows are locks: they say nothing, are made where they are first needed, and stay.

CREATE TABLE upload_permits (
  space uuid NOT NULL,
  permit smallint NOT NULL,
  PRIMARY KEY (space, permit)
);
