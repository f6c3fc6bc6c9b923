-- The column `seal` of the schema's own table is made before any migration runs (migrations.ts). From here on it is written.
SELECT 1;
