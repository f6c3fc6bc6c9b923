/** What a data folder's upload URLs and cursors are signed with (core/signer.ts). */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ServeError } from '../errors.ts';
import type { SharedSecret } from './deployment.ts';
import { codeOf, createPrivateFile, findPrivateFile, replacePrivateFile } from './private-file.ts';

const SECRET_NAME = 'secret.key';
export const SECRET_BYTES = 32;

/** The secret of a data folder, in a file of its own. Its verbs reject with ServeError. */
export function folderSecret(dataDir: string): SharedSecret {
  const path = join(dataDir, SECRET_NAME);
  return {
    async read() {
      const secret = (await findSecret(path)) ?? (await createPrivateFile(path, randomBytes(SECRET_BYTES)));
      if (secret.length === SECRET_BYTES) return secret;
      throw new ServeError(
        `the secret ${path} has ${secret.length} bytes instead of ${SECRET_BYTES}: restore it; removing it voids all upload URLs and cursors in use`,
      );
    },
    replace: (secret) => replacePrivateFile(path, secret),
  };
}

async function findSecret(path: string): Promise<Uint8Array | undefined> {
  try {
    return await findPrivateFile(path);
  } catch (error) {
    throw new ServeError(
      `the secret ${path} cannot be read (${codeOf(error)}): check its owner and mode, it belongs to the user that runs holdfast`,
    );
  }
}
