/**
 * Where what was forgotten can still be found: the lists that forgetting took the place of, remembered in the cache of the user.
 * The server names them only as long as another list stands.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Hash } from '@holdfast/client';
import { defaultCacheFolder } from '@holdfast/files';
import { isHash } from '@holdfast/protocol';

/** More are not worth it: a collection takes each of them. */
const LISTS_KEPT_MAX = 64;

/** Newest first. Nothing where nothing was remembered or it cannot be read: it is a hint. `scope`: server, Space and refDomain. */
export function findForgottenLists(scope: string): readonly Hash[] {
  try {
    const lists: unknown = JSON.parse(readFileSync(fileOf(scope), 'utf8'));
    return Array.isArray(lists) ? lists.filter(isHash) : [];
  } catch {
    return [];
  }
}

/** False where it could not be written. */
export function rememberForgottenLists(scope: string, lists: readonly Hash[]): boolean {
  const file = fileOf(scope);
  const kept = [...new Set([...lists, ...findForgottenLists(scope)])].slice(0, LISTS_KEPT_MAX);
  const written = `${file}.${randomUUID()}.part`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(written, JSON.stringify(kept), { mode: 0o600 });
    renameSync(written, file);
    return true;
  } catch {
    // The caller says how it can be taken back all the same.
    rmSync(written, { force: true });
    return false;
  }
}

function fileOf(scope: string): string {
  const key = createHash('sha256').update(scope).digest('hex').slice(0, 32);
  return join(defaultCacheFolder(process.env), 'forgotten', `${key}.json`);
}
