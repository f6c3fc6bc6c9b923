/** Tokens that an operator has revoked before they expire (docs/api.md, Capabilities, row 7). */
import { CLOCK_TOLERANCE_MS } from '@holdfast/protocol';
import { unauthorized } from './auth-errors.ts';
import type { Capability, Validity } from './capability.ts';
import type { Revocation, RevokedClaim } from './registry-store.ts';

/** The revocations of one App: value → the instant until which it counts, ms. */
export type Revocations = Readonly<Record<RevokedClaim, ReadonlyMap<string, number>>>;

/** `undefined` for an App without any, so that its requests look no further. */
export function indexRevocations(revocations: readonly Revocation[]): Revocations | undefined {
  if (revocations.length === 0) return undefined;
  const index = { jti: new Map<string, number>(), sub: new Map<string, number>() };
  for (const { claim, value, until } of revocations) index[claim].set(value, until);
  return index;
}

/**
 * Throws ApiError `invalid_token`; `now` in ms since the epoch. A token whose own "exp" is not after the end of the revocation stays
 * refused: the tolerance for clocks does not revive it.
 */
export function checkRevocations(
  revocations: Revocations | undefined,
  { tokenId, subject }: Capability,
  { until: acceptedUntil }: Validity,
  now: number,
): void {
  if (revocations === undefined) return;
  const counts = (until: number | undefined): boolean =>
    until !== undefined && (now < until || acceptedUntil - CLOCK_TOLERANCE_MS <= until);
  const isRevoked =
    (tokenId !== undefined && counts(revocations.jti.get(tokenId))) ||
    (subject !== undefined && counts(revocations.sub.get(subject)));
  if (isRevoked) {
    throw unauthorized('invalid_token', 'the token is not valid: the operator has revoked it');
  }
}
