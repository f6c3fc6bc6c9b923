/** Verification keys of an issuer, parsed from a JSON Web Key Set (RFC 7517). */

import { checkPrime } from 'node:crypto';
import { promisify } from 'node:util';
import {
  type Algorithm,
  isJsonObject,
  type JsonObject,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { importJWK, type JWK } from 'jose';
import {
  JWKS_BYTES_MAX,
  JWKS_FETCHES_MAX,
  JWKS_KEYS_MAX,
  KEY_ID_CHARACTERS_MAX,
  RSA_MODULUS_BITS_MAX,
  RSA_MODULUS_BITS_MIN,
} from './auth-limits.ts';
import { isBase64url } from './capability.ts';

/** One public key. `identity` is equal exactly if kid, algorithms and key bytes are equal. */
export interface VerificationKey {
  readonly kid: string | undefined;
  readonly algorithms: readonly Algorithm[];
  readonly identity: string;
  /** Imports the key for `algorithm`, once. Rejects if the key is unsafe, such as a point off the curve. */
  import(algorithm: Algorithm): Promise<CryptoKey>;
}

export interface KeySet {
  readonly keys: readonly VerificationKey[];
  /** equal exactly when two sets hold the same keys in the same order */
  readonly identity: string;
  /** one line for each key that was skipped as unsafe: the reason, without key material */
  readonly refusals: readonly string[];
}

/** The text is not a JSON Web Key Set. The message says why and holds no key material. */
export class KeySetError extends Error {
  override readonly name = 'KeySetError';
}

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'] as const;
const textEncoder = new TextEncoder();

/** Skips keys that are unsafe or cannot verify signatures (RFC 7517, 5); unsafe ones are noted. @throws KeySetError if it is no key set */
export function parseKeySet(text: string | Uint8Array): KeySet {
  const root = parseJson(typeof text === 'string' ? textEncoder.encode(text) : text);
  const entries = isJsonObject(root) ? root.get('keys') : undefined;
  if (!Array.isArray(entries)) {
    throw new KeySetError('it is not a JSON Web Key Set: an object with an array "keys" is expected');
  }
  if (entries.length > JWKS_KEYS_MAX) {
    throw new KeySetError(`it has ${entries.length} keys, at most ${JWKS_KEYS_MAX} are allowed`);
  }
  const keys: VerificationKey[] = [];
  const refusals: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const parsed = parseKey(entry);
    if (parsed.kind === 'refused') refusals.push(`key ${index + 1} ${parsed.reason}`);
    if (parsed.kind !== 'key') continue;
    if (keys.some((other) => isIndistinguishable(other, parsed.key))) {
      refusals.push(`key ${index + 1} has the kid and algorithm of an earlier key`);
    }
    keys.push(parsed.key);
  }
  return { keys, identity: JSON.stringify(keys.map((key) => key.identity)), refusals };
}

/** The one key that matches `kid` and `alg`; without a `kid` every key for the algorithm does. undefined: none or several. */
export function findKey(
  keySet: KeySet,
  algorithm: Algorithm,
  kid: string | undefined,
): VerificationKey | undefined {
  const fitting = keySet.keys.filter(
    (key) => key.algorithms.includes(algorithm) && (kid === undefined || key.kid === kid),
  );
  return fitting.length === 1 ? fitting[0] : undefined;
}

function parseJson(bytes: Uint8Array) {
  try {
    return parseStrictJson(bytes, { depthMax: 16, bytesMax: JWKS_BYTES_MAX });
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    // The message may quote a member name but no value.
    throw new KeySetError(`it is not valid JSON: ${error.message}`);
  }
}

type ParsedKey =
  | { readonly kind: 'key'; readonly key: VerificationKey }
  | { readonly kind: 'passed-over' }
  | { readonly kind: 'refused'; readonly reason: string };

const PASSED_OVER: ParsedKey = { kind: 'passed-over' };

function refused(reason: string): ParsedKey {
  return { kind: 'refused', reason };
}

function parseKey(entry: unknown): ParsedKey {
  if (!(entry instanceof Map)) return refused('is not an object');
  const jwk = entry as JsonObject;
  const kty = jwk.get('kty');
  if (typeof kty !== 'string') return refused('has no "kty"');
  if (kty === 'oct') return refused('is a symmetric key; only public keys may be registered');
  if (PRIVATE_MEMBERS.some((name) => jwk.has(name))) {
    return refused('holds private parts; register the public key set only');
  }
  const kid = jwk.get('kid');
  if (kid !== undefined && (typeof kid !== 'string' || kid === '' || kid.length > KEY_ID_CHARACTERS_MAX)) {
    return refused(`has a "kid" that is not a string of 1 to ${KEY_ID_CHARACTERS_MAX} characters`);
  }
  if (!isForVerifying(jwk)) return PASSED_OVER;
  const form = readKeyForm(jwk, kty);
  if (form.kind !== 'form') return form;
  const alg = jwk.get('alg');
  if (alg !== undefined && typeof alg !== 'string') return refused('has an "alg" that is not a string');
  const algorithms =
    alg === undefined ? form.algorithms : form.algorithms.filter((algorithm) => algorithm === alg);
  if (algorithms.length === 0) return PASSED_OVER;
  return { kind: 'key', key: createKey(kid, algorithms, form.members) };
}

/** `use` and `key_ops`, where present, must allow verifying signatures. */
function isForVerifying(jwk: JsonObject): boolean {
  const use = jwk.get('use');
  if (use !== undefined && use !== 'sig') return false;
  const operations = jwk.get('key_ops');
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'));
}

type KeyForm =
  | {
      readonly kind: 'form';
      readonly algorithms: readonly Algorithm[];
      readonly members: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'passed-over' }
  | { readonly kind: 'refused'; readonly reason: string };

/** The algorithms that a key type supports, and the members that make up the key. */
function readKeyForm(jwk: JsonObject, kty: string): KeyForm {
  const crv = jwk.get('crv');
  if (kty === 'EC' && crv === 'P-256') return readForm(jwk, ['ES256'], { kty, crv }, ['x', 'y']);
  if (kty === 'EC' && crv === 'P-384') return readForm(jwk, ['ES384'], { kty, crv }, ['x', 'y']);
  if (kty === 'OKP' && crv === 'Ed25519') return readEdwardsForm(jwk, { kty, crv });
  if (kty !== 'RSA') return { kind: 'passed-over' };
  const form = readForm(jwk, ['PS256', 'RS256'], { kty }, ['n', 'e']);
  if (form.kind !== 'form') return form;
  const bits = integerBits(form.members.n as string);
  if (bits < RSA_MODULUS_BITS_MIN || bits > RSA_MODULUS_BITS_MAX) {
    const reason = `is an RSA key of ${bits} bits; use ${RSA_MODULUS_BITS_MIN} to ${RSA_MODULUS_BITS_MAX}`;
    return { kind: 'refused', reason };
  }
  if (!isOdd(form.members.n as string)) {
    return { kind: 'refused', reason: 'is an RSA key with an even modulus; make a new key' };
  }
  // An exponent of 1 makes every message its own signature. A huge one makes each verification slow.
  const exponentBits = integerBits(form.members.e as string);
  if (!isOdd(form.members.e as string) || exponentBits < 2 || exponentBits > 32) {
    return { kind: 'refused', reason: 'is an RSA key with an unsafe exponent; use 65537' };
  }
  return form;
}

function readEdwardsForm(jwk: JsonObject, fixed: Readonly<Record<string, string>>): KeyForm {
  const form = readForm(jwk, ['EdDSA'], fixed, ['x']);
  if (form.kind !== 'form') return form;
  const reason = findEdwardsWeakness(Buffer.from(form.members.x as string, 'base64url'));
  return reason === undefined ? form : { kind: 'refused', reason };
}

function isOdd(base64url: string): boolean {
  return ((Buffer.from(base64url, 'base64url').at(-1) ?? 0) & 1) === 1;
}

function readForm(
  jwk: JsonObject,
  algorithms: readonly Algorithm[],
  fixed: Readonly<Record<string, string>>,
  names: readonly string[],
): KeyForm {
  const members: Record<string, string> = { ...fixed };
  for (const name of names) {
    const value = jwk.get(name);
    if (typeof value !== 'string' || value === '' || !isBase64url(value)) {
      return { kind: 'refused', reason: `has a "${name}" that is not base64url text` };
    }
    members[name] = value;
  }
  return { kind: 'form', algorithms, members };
}

/** Bit length of the big-endian integer in base64url text, without leading zeros. */
function integerBits(base64url: string): number {
  const bytes = Buffer.from(base64url, 'base64url');
  const first = bytes.findIndex((byte) => byte !== 0);
  if (first < 0) return 0;
  return (bytes.length - first - 1) * 8 + (32 - Math.clz32(bytes[first] as number));
}

function createKey(
  kid: string | undefined,
  algorithms: readonly Algorithm[],
  members: Readonly<Record<string, string>>,
): VerificationKey {
  const imported = new Map<Algorithm, Promise<CryptoKey>>();
  return {
    kid,
    algorithms,
    identity: JSON.stringify([kid ?? null, algorithms, members]),
    import(algorithm) {
      let key = imported.get(algorithm);
      if (key === undefined) {
        key = importChecked(members, algorithm);
        imported.set(algorithm, key);
      }
      return key;
    },
  };
}

async function importChecked(
  members: Readonly<Record<string, string>>,
  algorithm: Algorithm,
): Promise<CryptoKey> {
  if (members.n !== undefined && (await hasKnownFactors(members.n))) {
    throw new KeySetError('the RSA modulus is a prime or a square; make a new key');
  }
  return (await importJWK({ ...members } as unknown as JWK, algorithm)) as CryptoKey;
}

function isIndistinguishable(a: VerificationKey, b: VerificationKey): boolean {
  return a.kid === b.kid && a.algorithms.some((algorithm) => b.algorithms.includes(algorithm));
}

/** One round detects nearly all primes. It takes 10 ms for 2048 bits and 150 ms for 8192, in another thread. */
const ROUNDS = { checks: 1 };

const isPrime = promisify(checkPrime) as (candidate: bigint, options: typeof ROUNDS) => Promise<boolean>;

/** RSA moduli that are easy to factor, a prime and a square: anyone could forge signatures. `modulus`: base64url */
async function hasKnownFactors(modulus: string): Promise<boolean> {
  const value = BigInt(`0x${Buffer.from(modulus, 'base64url').toString('hex')}`);
  return isSquare(value) || isPrime(value, ROUNDS);
}

function isSquare(value: bigint): boolean {
  // Newton's method descends to the root from a power of 2 above it.
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root * root === value;
    root = next;
  }
}

const POINT_BYTES = 32;
/** The prime of the field, 2^255 − 19. */
const MODULUS = 2n ** 255n - 19n;
/** The y of the eight points of small order, each with either sign. */
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  MODULUS - 1n,
  2707385501144840649318225287225658788936804267575313519463743609750303402022n,
  55188659117513257062467267217118295137698188065244968500265048394206261417927n,
]);

/** Why the key must not be registered: anyone can forge a signature under a point of small order. undefined: no weakness is known. */
function findEdwardsWeakness(key: Uint8Array): string | undefined {
  if (key.length !== POINT_BYTES) return `is an Ed25519 key of ${key.length} bytes; it has ${POINT_BYTES}`;
  let y = 0n;
  for (const [index, byte] of key.entries()) {
    y |= BigInt(index === POINT_BYTES - 1 ? byte & ~0x80 : byte) << BigInt(8 * index); // without the sign bit of x
  }
  if (y >= MODULUS) return 'is an Ed25519 key that is not written as it has to be; make a new key';
  if (SMALL_ORDER_Y.has(y)) return 'is an Ed25519 key of small order; make a new key';
  return undefined;
}

const FAILING_MAX = Math.floor(JWKS_FETCHES_MAX / 2);

/** Bounds the concurrent key-set fetches of a process. Hosts whose last fetch failed get at most half of them, because they may hang. */
export class KeySetPlaces {
  #open = 0;
  #openFailing = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #waitingFailing: (() => void)[] = [];

  /** Takes a place; undefined if one is free at once. Call `end` with the same value afterwards. */
  begin(hasFailed: boolean): Promise<void> | undefined {
    if (this.#isFree(hasFailed)) {
      this.#take(hasFailed);
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    (hasFailed ? this.#waitingFailing : this.#waiting).push(resolve);
    return promise;
  }

  end(hasFailed: boolean): void {
    this.#open -= 1;
    if (hasFailed) this.#openFailing -= 1;
    while (this.#waiting.length > 0 && this.#isFree(false)) this.#give(this.#waiting, false);
    while (this.#waitingFailing.length > 0 && this.#isFree(true)) this.#give(this.#waitingFailing, true);
  }

  #isFree(hasFailed: boolean): boolean {
    return this.#open < JWKS_FETCHES_MAX && (!hasFailed || this.#openFailing < FAILING_MAX);
  }

  #give(waiting: (() => void)[], hasFailed: boolean): void {
    this.#take(hasFailed);
    waiting.shift()?.();
  }

  #take(hasFailed: boolean): void {
    this.#open += 1;
    if (hasFailed) this.#openFailing += 1;
  }
}
