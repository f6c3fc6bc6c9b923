/** core/ports.ts Signer: HMAC-SHA-256 under a key per purpose, all drawn from one secret kept with the data. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { link, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Signer } from '../core/ports.ts';
import { ServeError } from '../errors.ts';
import type { SharedSecret } from './deployment.ts';

type Purpose = Parameters<Signer['sign']>[0];

const SECRET_NAME = 'secret.key';
export const SECRET_BYTES = 32;
const SECRET_MODE = 0o600;

/** The secret of a data folder, in a file of its own. Its verbs reject with ServeError. */
export function folderSecret(dataDir: string): SharedSecret {
  const path = join(dataDir, SECRET_NAME);
  return {
    async read() {
      const secret = (await findSecret(path)) ?? (await createSecret(dataDir, path));
      if (secret.length === SECRET_BYTES) return secret;
      throw new ServeError(
        `the secret ${path} has ${secret.length} bytes instead of ${SECRET_BYTES}: restore it; removing it voids all upload URLs and cursors in use`,
      );
    },
    async replace(secret) {
      await rename(await writeDraft(path, secret), path);
      await syncFolder(dataDir);
    },
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
    return await readFile(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new ServeError(
      `the secret ${path} cannot be read (${codeOf(error)}): check its owner and mode, it belongs to the user that runs holdfast`,
    );
  }
}

/** Whole and durable under another name first: of processes that start together, the first link wins for all. */
async function createSecret(dataDir: string, path: string): Promise<Uint8Array> {
  const draft = await writeDraft(path, randomBytes(SECRET_BYTES));
  try {
    await link(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolder(dataDir);
  return readFile(path);
}

async function writeDraft(path: string, secret: Uint8Array): Promise<string> {
  const draft = `${path}.${crypto.randomUUID()}`;
  const file = await open(draft, 'wx', SECRET_MODE);
  try {
    await file.writeFile(secret);
    await file.sync();
  } finally {
    await file.close();
  }
  return draft;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}
