-- How far a copy of a whole deployment has come, and which state of this one it is of. Removed when a server starts.
CREATE TABLE copy_marks (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  value text NOT NULL
);
