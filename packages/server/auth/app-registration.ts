/** Validates what an operator registers about an App. */
import { BlockList, isIP } from 'node:net';
import {
  ALGORITHMS,
  type Algorithm,
  isAlgorithm,
  isPathId,
  PATH_ID_CHARACTERS_MAX,
  TOKEN_LIFETIME_MS_MAX_DEFAULT,
} from '@holdfast/protocol';
import { KeySetError, parseKeySet } from './key-set.ts';
import type { AppKeys, AppRecord, QuotaChange, Revocation } from './registry-store.ts';

/**
 * Link-local, and the metadata services of Azure, Alibaba Cloud and Oracle Cloud, with prefix lengths. No key set is fetched there,
 * because these services hand out the machine's credentials.
 */
const REFUSED_IPV4: readonly (readonly [address: string, bits: number])[] = [
  ['169.254.0.0', 16],
  ['168.63.129.16', 32],
  ['100.100.100.200', 32],
  ['192.0.0.192', 32],
];
/** IPv6 prefixes that carry an IPv4 address: mapped, compatible, translated (NAT64, its local prefix, SIIT). */
const CARRIERS = ['::ffff:', '::', '64:ff9b::', '64:ff9b:1::', '::ffff:0:'];

const REFUSED = new BlockList();
for (const [address, bits] of REFUSED_IPV4) {
  REFUSED.addSubnet(address, bits, 'ipv4');
  for (const carrier of CARRIERS) REFUSED.addSubnet(`${carrier}${address}`, 96 + bits, 'ipv6');
  // 6to4 carries an IPv4 address after its first 16 bits.
  REFUSED.addSubnet(`2002:${groupsOf(address)}::`, 16 + bits, 'ipv6');
}
REFUSED.addSubnet('fe80::', 10, 'ipv6');
// Metadata services with an address in a cloud's private network.
REFUSED.addAddress('fd00:ec2::254', 'ipv6');
REFUSED.addAddress('fd20:ce::254', 'ipv6');
REFUSED.addAddress('fd00:c1::a9fe:a9fe', 'ipv6');
REFUSED.addAddress('fd00:42::42', 'ipv6');

/** An IPv4 address as two groups of an IPv6 one. */
function groupsOf(address: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((group) => group.toString(16)).join(':');
}

/** Whether the text is a link-local or metadata address, without brackets. */
export function isLinkLocal(address: string): boolean {
  const [plain = ''] = address.split('%');
  const version = isIP(plain);
  return version !== 0 && REFUSED.check(plain, version === 4 ? 'ipv4' : 'ipv6');
}

/** The host of a URL if it is an address, without brackets; undefined if it is a name. */
export function findAddress({ hostname }: URL): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}

/** Longest issuer, audience, key-set URL, jti and sub, UTF-16 units. */
export const TEXT_LENGTH_MAX = 2048;

const NO_LIMITS: Pick<AppRecord, 'quotas' | 'spaceQuotas' | 'revocations'> = {
  quotas: { maxBytes: undefined, maxNodes: undefined, maxCommits: undefined },
  spaceQuotas: [],
  revocations: [],
};

export interface AppRegistration {
  readonly appId: string;
  readonly issuer: string;
  readonly audience: string;
  /** the text of a public JSON Web Key Set, or its URL */
  readonly keys: AppKeys;
  /** names; `undefined`: every supported algorithm */
  readonly algorithms?: readonly string[] | undefined;
  /** ms; 24 h when left out */
  readonly tokenLifetimeMsMax?: number | undefined;
}

/** A registration is refused, or a change does not apply. The message is one line: what is wrong and what to do. */
export class RegistrationError extends Error {
  override readonly name = 'RegistrationError';
}

/** Checks everything, the keys included, and makes the active record. Rejects with RegistrationError. */
export async function parseAppRegistration(registration: AppRegistration, now: number): Promise<AppRecord> {
  const { appId, issuer, audience } = registration;
  if (!isPathId(appId)) {
    throw new RegistrationError(
      `the App id is not usable in a path; choose 1 to ${PATH_ID_CHARACTERS_MAX} characters without control ` +
        'characters, other than . and ..',
    );
  }
  checkText('issuer', issuer);
  checkText('audience', audience);
  const tokenLifetimeMsMax = registration.tokenLifetimeMsMax ?? TOKEN_LIFETIME_MS_MAX_DEFAULT;
  if (!Number.isSafeInteger(tokenLifetimeMsMax) || tokenLifetimeMsMax <= 0) {
    throw new RegistrationError('the longest token lifetime must be more than 0, such as 24h');
  }
  const algorithms = parseAlgorithms(registration.algorithms);
  if (registration.keys.kind === 'url') checkUrl(registration.keys.url);
  else await checkKeySet(registration.keys.jwks, algorithms);
  return {
    appId,
    issuer,
    audience,
    status: 'active',
    keys: registration.keys,
    algorithms,
    tokenLifetimeMsMax,
    ...NO_LIMITS,
    createdAt: now,
    updatedAt: now,
  };
}

/** @throws RegistrationError */
export function checkRevocation({ claim, value, until }: Revocation, now: number): void {
  checkText(`"${claim}"`, value);
  if (!Number.isSafeInteger(until) || until <= now) {
    throw new RegistrationError('the revocation would have ended already: give a time to come');
  }
}

/** @throws RegistrationError */
export function checkQuotas(
  spaceId: string | undefined,
  { maxBytes, maxNodes, maxCommits }: QuotaChange,
): void {
  if (spaceId !== undefined && !isPathId(spaceId)) {
    throw new RegistrationError('the Space id is not usable in a path, so there can be no such Space');
  }
  for (const limit of [maxBytes, maxNodes, maxCommits]) {
    if (limit === undefined || limit === null) continue;
    if (!Number.isSafeInteger(limit) || limit < 0) {
      throw new RegistrationError('a quota must be a whole number from 0 to 2^53 - 1, or be lifted');
    }
  }
}

function checkText(name: string, value: string): void {
  const isUsable = value !== '' && value.length <= TEXT_LENGTH_MAX && value.isWellFormed();
  if (!isUsable || value.includes('\u0000')) {
    throw new RegistrationError(
      `the ${name} is empty, longer than ${TEXT_LENGTH_MAX} characters or no text; give another`,
    );
  }
}

function parseAlgorithms(names: readonly string[] | undefined): readonly Algorithm[] | undefined {
  if (names === undefined) return undefined;
  const algorithms = [...new Set(names)];
  if (algorithms.length === 0 || !algorithms.every(isAlgorithm)) {
    throw new RegistrationError(`the algorithms must be some of ${ALGORITHMS.join(', ')}`);
  }
  return algorithms;
}

function checkUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isUsable = text.length <= TEXT_LENGTH_MAX && text.isWellFormed() && !text.includes('\u0000');
  if (url === undefined || !/^https?:$/.test(url.protocol) || !isUsable) {
    throw new RegistrationError(
      'the key-set URL is not an http or https URL; give one such as https://…/jwks.json',
    );
  }
  const address = findAddress(url);
  if (address !== undefined && isLinkLocal(address)) {
    throw new RegistrationError(
      `the key-set URL is at ${address}, a link-local or metadata address, which no key set is fetched from; give another`,
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw new RegistrationError(
      'the key-set URL holds a user name or password; serve the public keys without one',
    );
  }
}

/** Rejects a set that holds any unsafe key, because the operator must learn of it. A set in use only skips such keys. */
async function checkKeySet(jwks: string, algorithms: readonly Algorithm[] | undefined): Promise<void> {
  try {
    const { keys, refusals } = parseKeySet(jwks);
    if (refusals.length > 0) throw new KeySetError(refusals.join('; '));
    const usable = keys.flatMap((key) =>
      key.algorithms
        .filter((algorithm) => algorithms === undefined || algorithms.includes(algorithm))
        .map((algorithm) => ({ key, algorithm })),
    );
    if (usable.length === 0) {
      throw new KeySetError(`no key in it can verify ${(algorithms ?? ALGORITHMS).join(', ')}`);
    }
    for (const { key, algorithm } of usable) {
      await key.import(algorithm).catch((error: unknown) => {
        const reason =
          error instanceof KeySetError ? error.message : `the numbers are no key for ${algorithm}`;
        throw new KeySetError(`key ${JSON.stringify(key.kid ?? '(no kid)')}: ${reason}`);
      });
    }
  } catch (error) {
    if (!(error instanceof KeySetError)) throw error;
    throw new RegistrationError(`the key set cannot be registered: ${error.message}`);
  }
}
