-- From which revision on the history of a domain is whole, and until when commits keep it (core/root-ref-walks.ts; -1: a walk may be under way).

ALTER TABLE domains ADD COLUMN walked_from bigint NOT NULL DEFAULT 0, ADD COLUMN walked_until bigint NOT NULL DEFAULT -1;
