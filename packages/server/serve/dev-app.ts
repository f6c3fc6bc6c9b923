/** `serve --dev`: an App for trying Holdfast out. Its key is in the data folder, and its token is valid for a day. */
import { join } from 'node:path';
import { AUTHORITIES } from '@holdfast/protocol';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import type { RegistryStore } from '../auth/registry-store.ts';
import { explainFolderError, makeDataFolder } from '../deployment/data-folder.ts';
import { markDataFolder } from '../deployment/folder-marks.ts';
import type { RowsPlace } from '../deployment/place.ts';
import { createPrivateFile, findSecretFile } from '../deployment/private-file.ts';
import { makeRegistry } from '../deployment/registry.ts';
import { ServeError } from '../errors.ts';
import { CODE_LIFE_MINUTES, type SpaceAccess } from '../operator/sign-in.ts';

const APP_ID = 'demo';
const SPACE_ID = 'home';
const ISSUER = 'https://holdfast-dev.invalid';
const AUDIENCE = 'holdfast';
const ALGORITHM = 'ES256';

export interface DevApp {
  /** Lines for stdout: `export` lines, the link to the console if any, a first command of `program`. They contain a token. */
  describe(place: DescribedPlace): Promise<readonly string[]>;
}

/** Registers the App, replacing an earlier registration, and activates it. Its key is in `dataDir`. Throws ServeError. */
export async function openDevApp(dataDir: string, place: RowsPlace): Promise<DevApp> {
  makeDataFolder(dataDir);
  markDataFolder(dataDir);
  const key = await openKey(dataDir);
  const { d: _, ...publicKey } = key;
  try {
    const registry = await makeRegistry(place);
    try {
      const jwks = JSON.stringify({ keys: [publicKey] });
      const registration = {
        appId: APP_ID,
        issuer: ISSUER,
        audience: AUDIENCE,
        keys: { kind: 'static', jwks },
      } as const;
      const { status } = await registry.addApp(registration, { replace: true });
      if (status !== 'active') await registry.setAppStatus(APP_ID, 'active');
    } finally {
      await registry.close();
    }
  } catch (error) {
    throw explainFolderError(dataDir, error);
  }
  return { describe: (described) => describe(key, described) };
}

/** Suspends our App, no operator's, at a start without `--dev`: its key is in a file, its tokens permit all. Returns whether it did. */
export async function suspendDevApp(apps: RegistryStore, now: number): Promise<boolean> {
  const devApp = (await apps.readAll()).find(({ appId, issuer }) => appId === APP_ID && issuer === ISSUER);
  if (devApp?.status !== 'active') return false;
  return await apps.setStatus(APP_ID, 'suspended', now);
}

interface DescribedPlace {
  readonly url: string;
  /** how a person starts a command */
  readonly program: string;
  readonly consoleLink: string | undefined;
  readonly keepAccess: KeepAccess;
}

/** Stores access for later commands on this machine. Returns the arguments they need; undefined if it could not be stored. */
export type KeepAccess = (access: SpaceAccess) => string | undefined;

/** The settings of the App for the console, with a new token. The App's key is in `dataDir`. Throws ServeError. */
export async function grantDevAccess(dataDir: string, url: string): Promise<SpaceAccess> {
  return { url, app: APP_ID, space: SPACE_ID, token: await mintToken(await openKey(dataDir)) };
}

async function describe(
  key: JWK,
  { url, program, consoleLink, keepAccess }: DescribedPlace,
): Promise<readonly string[]> {
  const token = await mintToken(key);
  const words = keepAccess({ url, app: APP_ID, space: SPACE_ID, token });
  const link = `# The console, signed in; the link works once, within ${CODE_LIFE_MINUTES} minutes: ${consoleLink}`;
  return [
    `export HOLDFAST_URL=${url}`,
    `export HOLDFAST_APP=${APP_ID}`,
    `export HOLDFAST_SPACE=${SPACE_ID}`,
    `export HOLDFAST_TOKEN=${token}`,
    ...(consoleLink === undefined ? [] : [link]),
    words === undefined
      ? '# The token is good for 24 hours. In another terminal paste the four lines above, then try:'
      : '# The token is good for 24 hours. Your commands on this machine find it; elsewhere paste the four lines above. Try:',
    `#   ${program} usage${words ?? ''}`,
  ];
}

async function mintToken(key: JWK): Promise<string> {
  const issuedAt = Math.floor(Date.now() / 1000);
  const claims = {
    ver: 1,
    iss: ISSUER,
    aud: AUDIENCE,
    iat: issuedAt,
    exp: issuedAt + 24 * 60 * 60,
    spaceId: SPACE_ID,
    permissions: [...AUTHORITIES],
    refDomain: 'demo',
  };
  return new SignJWT(claims)
    .setProtectedHeader({
      alg: ALGORITHM,
      typ: 'cas-cap+jwt',
      ...(key.kid === undefined ? {} : { kid: key.kid }),
    })
    .sign(await importJWK(key, ALGORITHM));
}

async function openKey(dataDir: string): Promise<JWK> {
  const path = join(dataDir, 'dev-key.jwk');
  let text: string;
  try {
    text = Buffer.from((await findKey(path)) ?? (await createKey(path))).toString();
  } catch (error) {
    throw explainFolderError(dataDir, error);
  }
  try {
    const key = JSON.parse(text) as JWK;
    await importJWK(key, ALGORITHM);
    if (typeof key.d === 'string' && key.alg === ALGORITHM && key.use === 'sig') return key;
  } catch {
    // The parser's message is dropped, because it quotes what it read.
  }
  throw new ServeError(
    `the demo App's key ${path} is not a private key: remove it, and --dev makes a new one`,
  );
}

async function createKey(path: string): Promise<Uint8Array> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const key = await exportJWK(privateKey);
  const kid = await calculateJwkThumbprint(key);
  const text = `${JSON.stringify({ ...key, kid, alg: ALGORITHM, use: 'sig' }, undefined, 2)}\n`;
  return createPrivateFile(path, Buffer.from(text));
}

async function findKey(path: string): Promise<Uint8Array | undefined> {
  try {
    return await findSecretFile(path, "the demo App's key");
  } catch (error) {
    if (error instanceof ServeError) throw error;
    throw new ServeError(
      `the demo App's key ${path} cannot be read: check its owner and mode, or remove it, and --dev makes a new one`,
    );
  }
}
