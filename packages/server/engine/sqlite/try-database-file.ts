/** Looks whether a database file can be used, without making anything beside it. */
import { constants, Database } from 'bun:sqlite';
import { codeOf } from '../../error-code.ts';
import { EngineRefused } from '../refused.ts';
import type { RowsTrial } from '../store-trial.ts';
import { getUsableVersion } from './migrations.ts';
import { STORE_VALUE_NAMES } from './store-identity.ts';

/** Opens the file as immutable: any other way would create a log. Commits since the last checkpoint are not seen. @throws EngineRefused */
export function tryDatabaseFile(
  path: string,
  bytes: 'folder' | 's3',
): Pick<RowsTrial, 'version' | 'storeId' | 'isMarked'> {
  let database: Database | undefined;
  try {
    database = new Database(immutable(path), constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI);
    const version = getUsableVersion(database, path);
    if (version === 0) return { version, storeId: undefined, isMarked: false };
    const { id, mark } = STORE_VALUE_NAMES[bytes];
    const marked = findStoreValue(database, mark);
    return { version, storeId: findStoreValue(database, id) ?? marked, isMarked: marked !== undefined };
  } catch (error) {
    if (error instanceof EngineRefused) throw error;
    const reason = `${(error as Error).message}${codeOf(error) === undefined ? '' : `, ${codeOf(error)}`}`;
    throw new EngineRefused(
      `${path} cannot be read (${reason}): check the disk and the rights, or restore a backup of the folder`,
      { cause: error },
    );
  } finally {
    database?.close();
  }
}

/** Valid in every schema. */
const FIND_VALUE = 'SELECT value FROM store WHERE name = ?1';
/** A path may hold characters that have a meaning in a URL. */
const immutable = (path: string): string => `${Bun.pathToFileURL(path).href}?immutable=1`;

function findStoreValue(database: Database, name: string): string | undefined {
  using statement = database.prepare<{ value: string }, [string]>(FIND_VALUE);
  return statement.get(name)?.value;
}

/** @throws EngineRefused, or what SQLite throws if the file cannot be read now */
export function assertUsableFile(path: string): void {
  using database = new Database(path, { readonly: true });
  getUsableVersion(database, path);
}
