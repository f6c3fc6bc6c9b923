-- The sum of a value of the store over its name and its text. NULL: the next start gives the row its sum.

ALTER TABLE store ADD COLUMN row_sum INTEGER;
