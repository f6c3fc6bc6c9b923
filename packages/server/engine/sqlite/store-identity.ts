/** engine/store-identity.ts among the values of the database. */

import { constants, Database } from 'bun:sqlite';
import { randomUUID } from 'node:crypto';
import { codeOf } from '../../error-code.ts';
import { EngineRefused } from '../refused.ts';
import type { StoreIdentity } from '../store-identity.ts';
import type { RowsTrial } from '../store-trial.ts';
import type { MarkName } from '../transfer-ports.ts';
import type { SqliteMetadataStore } from './metadata-store.ts';
import { getUsableVersion } from './migrations.ts';

/** Each kind of store has its own, so that rows with bytes in S3 are not opened with a folder. Old folders have only the mark. */
const STORE_VALUE_NAMES = {
  folder: { id: 'folder-store-id', mark: 'content-store-id' },
  s3: { id: 'other-store-id', mark: 'other-store-marked' },
} as const;

/** Resolves when the id is durable. @throws EngineRefused: the bytes of these rows are in the other kind of store */
export async function openStoreIdentity(
  metadata: SqliteMetadataStore,
  dataDir: string,
  bytes: 'folder' | 's3',
): Promise<StoreIdentity> {
  const other = bytes === 'folder' ? 's3' : 'folder';
  if (metadata.findStoreValue(STORE_VALUE_NAMES[other].mark) !== undefined) throw elsewhere(dataDir, other);
  const { id, mark } = STORE_VALUE_NAMES[bytes];
  const marked = metadata.findStoreValue(mark);
  const storeId =
    metadata.findStoreValue(id) ?? marked ?? (await metadata.insertStoreValue(id, randomUUID()));
  return {
    storeId,
    isMarked: marked !== undefined,
    async noteMarked() {
      await metadata.insertStoreValue(mark, storeId);
    },
  };
}

function elsewhere(dataDir: string, bytes: 'folder' | 's3'): EngineRefused {
  return new EngineRefused(
    bytes === 's3'
      ? `the bytes of ${dataDir} are in another store: give its --content, as before`
      : `the bytes of ${dataDir} are in that folder: leave --content out, or begin with another --data folder`,
  );
}

/** Whether the bytes of these rows are in S3. */
export function isMarkedElsewhere(database: Database): boolean {
  using statement = database.prepare('SELECT 1 FROM store WHERE name = ?1');
  return statement.get(STORE_VALUE_NAMES.s3.mark) !== null;
}

/** The deployment that these rows were restored from: its backups may continue in the same folder. */
const RESTORED_FROM = 'restored-from';

/** Gives the rows another content folder, which has no marker yet. A bucket keeps its identity, because a restore copies no bucket. */
export function renewFolderIdentity(database: Database): void {
  const [former] = findIdentities(database);
  if (former !== undefined) {
    database.run('INSERT OR REPLACE INTO store (name, value) VALUES (?1, ?2)', [RESTORED_FROM, former]);
  }
  database.run('DELETE FROM store WHERE name IN (?1, ?2)', [
    STORE_VALUE_NAMES.folder.id,
    STORE_VALUE_NAMES.folder.mark,
  ]);
}

/** The id of the store of bytes that these rows have, if they were ever served, and of the one they were restored from. */
export function findIdentities(database: Database): string[] {
  const { folder, s3 } = STORE_VALUE_NAMES;
  const names = [folder.id, folder.mark, s3.id, s3.mark, RESTORED_FROM];
  const ids = names.flatMap((name) => findValue(database, name) ?? []);
  return [...new Set(ids)];
}

/** The id that the marker of the content folder holds; undefined if the rows have noted none. */
export function findNotedMarker(database: Database): string | undefined {
  return findValue(database, STORE_VALUE_NAMES.folder.mark);
}

function findValue(database: Database, name: string): string | undefined {
  using statement = database.prepare<{ value: string }, [string]>('SELECT value FROM store WHERE name = ?1');
  return statement.get(name)?.value;
}

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

/** The marks of a copy of the whole deployment, for a server that starts. */
export const copyMarkName = (name: MarkName): string => `copy-${name}`;

/** Call before a server serves: refuses an unfinished copy, and ends the marks of earlier ones. @throws EngineRefused */
export async function beginServing(metadata: SqliteMetadataStore, dataDir: string): Promise<void> {
  if (metadata.findStoreValue(copyMarkName('unfinished')) !== undefined) {
    throw new EngineRefused(
      `the data folder ${dataDir} holds an unfinished copy of another deployment: finish it by the same holdfast migrate command, or begin with another folder`,
    );
  }
  for (const name of ['epoch', 'finished'] as const) await metadata.removeStoreValue(copyMarkName(name));
}
