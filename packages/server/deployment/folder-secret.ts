/** The secrets that sign a data folder's upload URLs and cursors (core/signer.ts). */

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { findBit } from '../core/rows/find-bit.ts';
import type { RotatingSigner } from '../core/signer.ts';
import {
  formatSecrets,
  onlySecret,
  parseSecrets,
  SECRET_BYTES,
  type SigningSecrets,
} from '../core/signing-secrets.ts';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { SharedSecret } from './deployment.ts';
import { createPrivateFile, findSecretFile, replacePrivateFile } from './private-file.ts';

export const SECRET_NAME = 'secret.key';

/** The secret of a data folder, in a file of its own. Its verbs reject with ServeError. */
export function folderSecret(dataDir: string): SharedSecret {
  const path = join(dataDir, SECRET_NAME);
  // A server reads the file every 2 s, and the search for a wrong bit takes up to a second.
  let last: ReadSecrets | undefined;
  const parse = (content: Uint8Array): SigningSecrets => {
    if (last === undefined || Buffer.compare(last.content, content) !== 0)
      last = { content, secrets: parseSecrets(content) ?? mendBit(content) };
    if (last.secrets !== undefined) return last.secrets;
    throw new ServeError(
      `the secret ${path} is damaged (${content.length} bytes): restore it; removing it voids all upload URLs and cursors in use`,
    );
  };
  const find = async (): Promise<SigningSecrets | undefined> => {
    const content = await findSecret(path);
    return content === undefined ? undefined : parse(content);
  };
  const replace = (secrets: SigningSecrets): Promise<void> =>
    replacePrivateFile(path, formatSecrets(secrets));
  return {
    find,
    replace,
    async read() {
      const found = await find();
      if (found !== undefined) return found;
      return parse(await createPrivateFile(path, formatSecrets(onlySecret(randomBytes(SECRET_BYTES)))));
    },
    async exchange(from, to) {
      if (!Bun.deepEquals(await find(), from)) return false;
      await replace(to);
      return true;
    },
  };
}

interface ReadSecrets {
  readonly content: Uint8Array;
  /** undefined: it is damaged */
  readonly secrets: SigningSecrets | undefined;
}

/** What was written, if one bit of it is wrong. */
function mendBit(content: Uint8Array): SigningSecrets | undefined {
  const isWritten = (bytes: Uint8Array): boolean => {
    const secrets = parseSecrets(bytes);
    return secrets !== undefined && Buffer.compare(formatSecrets(secrets), bytes) === 0;
  };
  const mended = findBit({ content }, ['content'], (row) => isWritten(row.content));
  return mended && parseSecrets(mended.value as Uint8Array);
}

async function findSecret(path: string): Promise<Uint8Array | undefined> {
  try {
    return await findSecretFile(path, 'the secret');
  } catch (error) {
    if (error instanceof ServeError) throw error;
    throw new ServeError(
      `the secret ${path} cannot be read (${codeOf(error)}): check its owner and mode, it belongs to the user that runs holdfast`,
    );
  }
}

/** After a stop, resolves when no read is in progress. While the secret cannot be read the server keeps the one it has. */
export function watchSecret(secret: SharedSecret, signer: RotatingSigner, log: Log): () => Promise<void> {
  let looking: Promise<void> | undefined;
  let isFailing = false;
  const look = async (): Promise<void> => {
    try {
      const secrets = await secret.find();
      if (secrets !== undefined) signer.take(secrets);
      isFailing = false;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!isFailing) log.warn({ reason }, 'the secret of upload URLs could not be read again');
      isFailing = true;
    } finally {
      looking = undefined;
    }
  };
  // Every process must have the secret within 5 s. It begins to sign after 10 s.
  const timer = setInterval(() => {
    looking ??= look();
  }, 2000).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}
