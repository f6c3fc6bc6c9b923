-- When a domain was at which revision: by that records of commits become old (core/commit-records.ts). Empty unless an operator wants them to go.

CREATE TABLE commit_marks (
  domain INTEGER NOT NULL,
  marked_at INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  row_sum INTEGER NOT NULL,
  PRIMARY KEY (domain, marked_at)
) STRICT, WITHOUT ROWID;
