-- The Spaces of one App, in the order of their keys: an operator lists them, and a quota of the App needs their sum.

CREATE INDEX CONCURRENTLY spaces_by_app ON spaces (app_id, space);
