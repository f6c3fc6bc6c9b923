/** The secrets that upload URLs and cursors are signed with: one signs, former ones still verify, and a coming one verifies already. */

import { isDigest, type Shape, takeShape } from './closed-shape.ts';

export const SECRET_BYTES = 32;
/** How long a former secret verifies: the longest upload URL (7 d), root-ref history (24 h), and a day for clocks that disagree. */
export const SECRET_OVERLAP_MS = 8 * 24 * 60 * 60 * 1000;
/** From its publication until it signs. Every process takes a secret up within 5 s, so none meets a signature that it cannot verify. */
export const SECRET_NOTICE_MS = 10_000;
/** Each costs a forged signature one more comparison. */
export const SECRETS_MAX = 8;

export interface SigningSecret {
  readonly secret: Uint8Array;
  /** the last secret whose time has come signs */
  readonly signsFromAt: number;
  /** null for the newest */
  readonly verifiesUntilAt: number | null;
}

/** Oldest first, at least one. */
export type SigningSecrets = readonly [SigningSecret, ...SigningSecret[]];

/** A secret that has no former ones: what was signed before is refused. */
export const onlySecret = (secret: Uint8Array): SigningSecrets => [
  { secret, signsFromAt: 0, verifiesUntilAt: null },
];

export type PlannedRotation =
  | { readonly secrets: SigningSecrets; readonly signsFromAt: number; readonly formerUntilAt: number }
  /** when a rotation is possible again, and why not before */
  | { readonly refused: 'under way' | 'too many'; readonly againAt: number };

/** `fresh` comes after all others; secrets whose time is over leave. */
export function planRotation(secrets: SigningSecrets, fresh: Uint8Array, now: number): PlannedRotation {
  const kept = secrets.filter(({ verifiesUntilAt }) => verifiesUntilAt === null || verifiesUntilAt > now);
  const newest = secrets.at(-1) as SigningSecret;
  if (newest.signsFromAt > now) return { refused: 'under way', againAt: newest.signsFromAt };
  if (kept.length >= SECRETS_MAX) {
    return { refused: 'too many', againAt: (kept[0] as SigningSecret).verifiesUntilAt as number };
  }
  const signsFromAt = now + SECRET_NOTICE_MS;
  const formerUntilAt = signsFromAt + SECRET_OVERLAP_MS;
  const former = kept.map((each) => ({ ...each, verifiesUntilAt: each.verifiesUntilAt ?? formerUntilAt }));
  const coming = { secret: fresh, signsFromAt, verifiesUntilAt: null };
  return { secrets: [...former, coming] as unknown as SigningSecrets, signsFromAt, formerUntilAt };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** JSON with the digest of its secrets. */
export function formatSecrets(secrets: SigningSecrets): Uint8Array {
  const all = secrets.map(({ secret, ...rest }) => ({ secret: secret.toHex(), ...rest }));
  return encoder.encode(`${JSON.stringify({ version: 1, secrets: all, sha256: digestOf(all) })}\n`);
}

const digestOf = (secrets: unknown): string => Bun.SHA256.hash(JSON.stringify(secrets), 'hex');

/** hex */
const TEXT_START = encoder.encode('{"version":').toHex();

interface KeptSecrets {
  readonly version: number;
  readonly secrets: readonly Record<string, unknown>[];
  readonly sha256?: string;
}

const KEPT: Shape<KeptSecrets> = {
  version: (value) => value === 1,
  secrets: (value) => Array.isArray(value) && value.length > 0,
  sha256: (value) => value === undefined || isDigest(value),
};

/** Earlier versions kept a secret alone as its bytes, and several without a digest. Undefined: damaged. */
export function parseSecrets(bytes: Uint8Array): SigningSecrets | undefined {
  // What a cut file begins with is no secret: everybody knows it.
  if (bytes.length === SECRET_BYTES)
    return bytes.toHex().startsWith(TEXT_START) ? undefined : onlySecret(bytes);
  try {
    const kept = takeShape<KeptSecrets>(JSON.parse(decoder.decode(bytes)), KEPT);
    if (kept === undefined || (kept.sha256 ?? digestOf(kept.secrets)) !== digestOf(kept.secrets))
      return undefined;
    const parsed = kept.secrets.map(parseSecret);
    return parsed.includes(undefined) ? undefined : (parsed as unknown as SigningSecrets);
  } catch {
    return undefined;
  }
}

function parseSecret({
  secret,
  signsFromAt,
  verifiesUntilAt,
}: Record<string, unknown>): SigningSecret | undefined {
  if (typeof secret !== 'string' || typeof signsFromAt !== 'number') return undefined;
  if (verifiesUntilAt !== null && typeof verifiesUntilAt !== 'number') return undefined;
  const bytes = Uint8Array.fromHex(secret);
  return bytes.length === SECRET_BYTES ? { secret: bytes, signsFromAt, verifiesUntilAt } : undefined;
}
