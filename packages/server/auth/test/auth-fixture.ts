/** Issuers, keys and tokens for the tests of authorization. */
import type { Algorithm } from '@holdfast/protocol';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import type {
  AppRecord,
  AppStatus,
  LimitOutcome,
  QuotaChange,
  RegistryStore,
  Revocation,
} from '../registry-store.ts';

export interface TestKey {
  readonly algorithm: Algorithm;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
}

/** RSA key pairs are slow to make, so each kind of key is made once. */
const made = new Map<string, Promise<TestKey>>();

export function testKey(algorithm: Algorithm, name = 'first'): Promise<TestKey> {
  const id = `${algorithm} ${name}`;
  let key = made.get(id);
  if (key === undefined) {
    key = makeKey(algorithm);
    made.set(id, key);
  }
  return key;
}

async function makeKey(algorithm: Algorithm): Promise<TestKey> {
  const pair = await generateKeyPair(algorithm, { extractable: true });
  return { algorithm, privateKey: pair.privateKey, publicJwk: await exportJWK(pair.publicKey) };
}

export function keySetText(...keys: readonly JWK[]): string {
  return JSON.stringify({ keys });
}

/** Header and claims that override the defaults of a valid token; undefined removes the member. */
export interface TokenParts {
  readonly header?: Readonly<Record<string, unknown>>;
  readonly claims?: Readonly<Record<string, unknown>>;
}

export const ISSUER = 'https://issuer.test';
export const AUDIENCE = 'holdfast-test';
export const APP_ID = 'app';
export const SPACE_ID = 'space';

export function goodClaims(nowMs: number): Record<string, unknown> {
  const seconds = Math.floor(nowMs / 1000);
  return {
    ver: 1,
    iss: ISSUER,
    aud: AUDIENCE,
    iat: seconds,
    exp: seconds + 300,
    spaceId: SPACE_ID,
    permissions: ['cas:nodes:read', 'cas:root-refs:read'],
    refDomain: 'docs',
  };
}

/** A token signed by `key`, whatever its header says. */
export async function mint(key: TestKey, nowMs: number, parts: TokenParts = {}): Promise<string> {
  const header = { alg: key.algorithm, ...parts.header };
  const claims = { ...goodClaims(nowMs), ...parts.claims };
  // The library refuses to sign these members, so they are added by hand.
  if (JSON.stringify(Object.keys(header)) !== '["alg"]' || header.alg !== key.algorithm) {
    return signByHand(key, header, claims);
  }
  return await new SignJWT(claims).setProtectedHeader(header).sign(key.privateKey);
}

export async function signByHand(key: TestKey, header: object, claims: unknown): Promise<string> {
  const text = typeof claims === 'string' ? claims : JSON.stringify(claims);
  const input = `${encodePart(JSON.stringify(header))}.${encodePart(text)}`;
  const signature = await crypto.subtle.sign(
    signParameters(key.algorithm),
    key.privateKey,
    new TextEncoder().encode(input),
  );
  return `${input}.${Buffer.from(signature).toString('base64url')}`;
}

function signParameters(algorithm: Algorithm): { name: string; hash?: string; saltLength?: number } {
  switch (algorithm) {
    case 'ES256':
      return { name: 'ECDSA', hash: 'SHA-256' };
    case 'ES384':
      return { name: 'ECDSA', hash: 'SHA-384' };
    case 'EdDSA':
      return { name: 'Ed25519' };
    case 'PS256':
      return { name: 'RSA-PSS', saltLength: 32 };
    case 'RS256':
      return { name: 'RSASSA-PKCS1-v1_5' };
  }
}

export function encodePart(text: string): string {
  return Buffer.from(text).toString('base64url');
}

export function appRecord(change: Partial<AppRecord> = {}): AppRecord {
  return {
    appId: APP_ID,
    issuer: ISSUER,
    audience: AUDIENCE,
    status: 'active',
    keys: { kind: 'static', jwks: '{"keys":[]}' },
    algorithms: undefined,
    tokenLifetimeMsMax: 86_400_000,
    quotas: { maxBytes: undefined, maxNodes: undefined },
    spaceQuotas: [],
    revocations: [],
    createdAt: 1,
    updatedAt: 1,
    ...change,
  };
}

/** Rows in memory that can fail on demand. */
export class MemoryRegistryStore implements RegistryStore {
  #records: readonly AppRecord[];
  failure: Error | undefined;
  readCount = 0;
  /** while set, a read waits for it */
  gate: Promise<void> | undefined;

  constructor(...records: readonly AppRecord[]) {
    this.#records = records;
  }

  readAll(): readonly AppRecord[] | Promise<readonly AppRecord[]> {
    this.readCount++;
    if (this.failure !== undefined) throw this.failure;
    return this.gate === undefined ? this.#records : this.gate.then(() => this.#records);
  }

  insert(record: AppRecord): 'inserted' {
    this.#records = [...this.#records, record];
    return 'inserted';
  }

  replace(record: AppRecord): 'replaced' {
    this.#records = this.#records.map((each) => (each.appId === record.appId ? record : each));
    return 'replaced';
  }

  setStatus(appId: string, status: AppStatus): boolean {
    this.#records = this.#records.map((each) => (each.appId === appId ? { ...each, status } : each));
    return true;
  }

  remove(appId: string): boolean {
    this.#records = this.#records.filter((each) => each.appId !== appId);
    return true;
  }

  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): LimitOutcome {
    const { maxBytes, maxNodes } = change;
    const quotas = { maxBytes: maxBytes ?? undefined, maxNodes: maxNodes ?? undefined };
    this.#change(appId, (each) =>
      spaceId === undefined ? { ...each, quotas } : { ...each, spaceQuotas: [{ spaceId, ...quotas }] },
    );
    return 'changed';
  }

  revoke(appId: string, revocation: Revocation): LimitOutcome {
    this.#change(appId, (each) => ({ ...each, revocations: [...each.revocations, revocation] }));
    return 'changed';
  }

  liftRevocation(appId: string): boolean {
    this.#change(appId, (each) => ({ ...each, revocations: [] }));
    return true;
  }

  findStoppedAt(): undefined {
    return undefined;
  }

  #change(appId: string, change: (record: AppRecord) => AppRecord): void {
    this.#records = this.#records.map((each) => (each.appId === appId ? change(each) : each));
  }

  close(): void {}
}
