/** Remembers in the cache folder which snapshots this user has forgotten, to take back when no list on the server names them. */

import { createHash, randomUUID } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CATALOG_CONTENT_TYPE, encodeCatalog, parseCatalog, type Snapshot } from '@holdfast/client/internal';
import { defaultCacheFolder, makeCacheFolder } from '@holdfast/files';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { removeFile } from '../files.ts';

const FORGOTTEN_PART = 'forgotten';

/** None where nothing was remembered, or it cannot be read: it is a hint. `scope` names server, Space and refDomain. */
export function findForgotten(scope: string): readonly Snapshot[] {
  const folder = defaultCacheFolder(process.env);
  if (folder === undefined) return [];
  try {
    return parseCatalog(CATALOG_CONTENT_TYPE, readOwnFile(fileOf(folder, scope))).snapshots;
  } catch {
    return [];
  }
}

/** False where it could not be written: the caller says how it can be taken back all the same. */
export function rememberForgotten(scope: string, forgotten: readonly Snapshot[]): boolean {
  const folder = defaultCacheFolder(process.env);
  if (folder === undefined) return false;
  const file = fileOf(folder, scope);
  const byId = new Map([...findForgotten(scope), ...forgotten].map((snapshot) => [snapshot.id, snapshot]));
  // The trees of older ones are collected.
  const snapshots = [...byId.values()].slice(-1_000);
  const part = `${file}.${randomUUID()}.part`;
  try {
    makeCacheFolder(folder, FORGOTTEN_PART);
    writeFileSync(part, encodeCatalog({ random: '', previous: [], snapshots }), { mode: PRIVATE_FILE_MODE });
    renameSync(part, file);
    return true;
  } catch {
    removeFile(part);
    return false;
  }
}

/** A pipe in its place would be waited for. */
function readOwnFile(path: string): Uint8Array {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const stats = fstatSync(file);
    // A larger file is none of ours.
    if (!stats.isFile() || stats.size > 64 * 1024 * 1024) throw new Error('it is no file of ours');
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

function fileOf(folder: string, scope: string): string {
  const key = createHash('sha256').update(scope).digest('hex').slice(0, 32);
  return join(folder, FORGOTTEN_PART, `${key}.json`);
}
