-- When a domain was at which revision: by that records of commits become old (core/commit-records.ts). Empty unless an operator wants them to go.
CREATE TABLE commit_marks (
  space uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  marked_at bigint NOT NULL,
  revision bigint NOT NULL,
  row_sum bigint NOT NULL,
  PRIMARY KEY (space, domain, marked_at)
);
