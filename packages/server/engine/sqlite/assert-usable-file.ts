/** Looks, beside the process that has it open, whether a database still has a schema that this build can use. */
import { Database } from 'bun:sqlite';
import { getUsableVersion } from './migrations.ts';

/** @throws EngineRefused, or what SQLite throws if the file cannot be read now */
export function assertUsableFile(path: string): void {
  using database = new Database(path, { readonly: true });
  getUsableVersion(database, path);
}
