/** core/ports.ts Signer: HMAC-SHA-256 under a key per purpose, all drawn from one secret kept with the data. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import type { Signer } from '../core/ports.ts';
import { ServeError } from '../errors.ts';
import type { SharedSecret } from './deployment.ts';
import { codeOf, createPrivateFile, findPrivateFile, replacePrivateFile } from './private-file.ts';

type Purpose = Parameters<Signer['sign']>[0];

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

export function createSigner(secret: Uint8Array): Signer {
  const keys: Readonly<Record<Purpose, Uint8Array>> = {
    'upload-url': deriveKey(secret, 'upload-url'),
    cursor: deriveKey(secret, 'cursor'),
  };
  const sign = (purpose: Purpose, message: string): Buffer =>
    createHmac('sha256', keys[purpose]).update(message).digest();
  return {
    sign,
    verify(purpose, message, signature) {
      const expected = sign(purpose, message);
      return signature.length === expected.length && timingSafeEqual(signature, expected);
    },
  };
}

function deriveKey(secret: Uint8Array, purpose: Purpose): Uint8Array {
  return createHmac('sha256', secret).update(`holdfast v1 ${purpose}`).digest();
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
