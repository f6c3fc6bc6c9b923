-- From which revision on the history of a domain is whole, and until when commits keep it (core/root-ref-walks.ts; -1: a walk may be under way).

ALTER TABLE domains ADD COLUMN walked_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE domains ADD COLUMN walked_until INTEGER NOT NULL DEFAULT -1;
