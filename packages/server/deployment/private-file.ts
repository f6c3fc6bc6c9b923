/** Small files of a data folder that only its owner may read, such as secrets. A file appears complete, or not at all. */

import { chown, link, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import { readSecretFile } from '../secret-file.ts';
import { assertOwnFile, NotOurs, readOwnFile } from './held-folder.ts';

/** @throws NotOurs if the entry is not a file, such as a pipe without a writer */
async function findPrivateFile(path: string): Promise<Uint8Array | undefined> {
  return readOwnFile(path, 1024 * 1024);
}

/** As `findPrivateFile`, of a secret: rejects with ConfigError if others can use the file. `what` names its role. */
export async function findSecretFile(path: string, what: string): Promise<Uint8Array | undefined> {
  // A pipe that a person names is read; one in a place of ours is refused.
  assertOwnFile(path);
  try {
    return (await readSecretFile(path, what)).bytes;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Resolves with the durable content of the file. If several processes start together, the first makes it for all. */
export async function createPrivateFile(path: string, content: Uint8Array): Promise<Uint8Array> {
  const draft = await writeDraft(path, content);
  try {
    await link(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolder(dirname(path));
  const made = await findPrivateFile(path);
  if (made === undefined) throw new ServeError(`${path} went away while it was made: start again`);
  return made;
}

/** The file keeps its owner: a server has to read what root replaced. Durable when it resolves. */
export async function replacePrivateFile(path: string, content: Uint8Array): Promise<void> {
  const former = await lstat(path).catch(() => undefined);
  if (former !== undefined && !former.isFile()) throw new NotOurs(path, 'file');
  const draft = await writeDraft(path, content);
  try {
    if (former !== undefined && former.uid !== process.getuid?.()) await chown(draft, former.uid, former.gid);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Writes the file durably under another name. */
async function writeDraft(path: string, content: Uint8Array): Promise<string> {
  const draft = `${path}.${crypto.randomUUID()}`;
  await using file = await open(draft, 'wx', PRIVATE_FILE_MODE);
  await file.writeFile(content);
  await file.sync();
  return draft;
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await folder.sync();
}
