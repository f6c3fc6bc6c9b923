/** The operator tokens of a server: from a file, or generated for this start. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { sha256Hex } from '../core/signer.ts';
import { explainFolderError, makeDataFolder } from '../deployment/data-folder.ts';
import { markDataFolder } from '../deployment/folder-marks.ts';
import { replacePrivateFile } from '../deployment/private-file.ts';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';
import { type LoadedTokens, loadTokens } from '../operator/operator-tokens.ts';
import { LONE_NAME } from '../operator/token-lines.ts';
import type { ServeConfig } from './config.ts';

const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

/** `undefined`: no file was given. Rejects with ConfigError. */
export async function loadGivenTokens({ operators }: ServeConfig): Promise<LoadedTokens | undefined> {
  return operators?.tokenFile === undefined ? undefined : loadTokens(operators.tokenFile);
}

/** A new token in the data folder, which the caller holds if rows lie in it. Rejects with ServeError. */
export async function makeToken({ dataDir }: ServeConfig, log: Log): Promise<LoadedTokens> {
  const token = randomBytes(32).toString('hex');
  const path = join(dataDir, 'operator-token');
  try {
    makeDataFolder(dataDir);
    markDataFolder(dataDir);
    await replacePrivateFile(path, Buffer.from(`${token}\n`));
    // Servers that share their engines may share a folder: then all use the newest token.
    return await loadTokens(path);
  } catch (error) {
    if (error instanceof ServeError) throw error;
    if (!FULL.has(codeOf(error))) throw explainFolderError(dataDir, error);
    // Reads work while the disk is full, so the server must start. The former token is revoked.
    log.warn(
      'the disk is full, so there is no file with a token of operators: use holdfast with --data, or holdfast console, until the server is started again',
    );
  }
  const entry = { name: LONE_NAME, digest: sha256Hex(token), rights: ['all'], until: undefined } as const;
  return { entries: [entry], file: undefined };
}
