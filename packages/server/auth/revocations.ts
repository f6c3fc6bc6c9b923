/** Tokens that an operator has revoked before they expire (docs/api.md, Capabilities, row 7). */
import { CLOCK_TOLERANCE_MS } from '@holdfast/protocol';
import { unauthorized } from './auth-errors.ts';
import type { Capability, Validity } from './capability.ts';
import type { Revocation, RevokedClaim } from './registry-store.ts';

/** The revocations of one App: value → end, ms. */
export type Revocations = Readonly<Record<RevokedClaim, ReadonlyMap<string, number>>>;

/** Returns undefined for an App without revocations, so that its requests skip the check. */
export function indexRevocations(revocations: readonly Revocation[]): Revocations | undefined {
  if (revocations.length === 0) return undefined;
  const index = { jti: new Map<string, number>(), sub: new Map<string, number>() };
  for (const { claim, value, until } of revocations) index[claim].set(value, until);
  return index;
}

/**
 * `now`: ms since the epoch. A token that expires no later than the revocation stays refused: clock tolerance does not revive it.
 * @throws ApiError `invalid_token`
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
