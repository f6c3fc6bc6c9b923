-- The Spaces of one App, in the order of their ids: an operator lists them, and a quota of the App needs their sum.

CREATE INDEX spaces_by_app ON spaces (app_id);
