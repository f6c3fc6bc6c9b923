/** Checks that an upload URL may still be used: revocations and the status of its App apply to it too. */
import { ApiError } from '@holdfast/protocol';
import type { Authorizer } from './authorize.ts';
import type { Revocations } from './capability.ts';
import type { RegisteredIssuer } from './issuer-registry.ts';
import type { RevokedClaim } from './registry-store.ts';

/** The claims of an upload URL. */
export interface GivenUpload {
  readonly appId: string;
  /** ms */
  readonly expiresAt: number;
  /** the same for all URLs issued to one capability; undefined if the capability has no claim by which it can be revoked */
  readonly holder: string | undefined;
  isHeldBy(claim: RevokedClaim, value: string): boolean;
}

/** The end of each holder's revocation, ms; 0 if none. The registry keeps the revocations of an App while nothing has changed. */
const revokedUntil = new WeakMap<Revocations, Map<string, number>>();

/** Reads no row: it uses the process's copy of the registry. Rejects with FORBIDDEN, or `registry_unavailable` if that is too old. */
export function checkGivenUpload(authorizer: Authorizer, upload: GivenUpload): void | Promise<void> {
  const read = authorizer.registry.read();
  if (read instanceof Promise) return read.then(() => check(authorizer, upload));
  check(authorizer, upload);
}

function check({ registry, world }: Authorizer, upload: GivenUpload): void {
  const registered = registry.findApp(upload.appId);
  if (registered?.status !== 'active') throw refused('its App is suspended or removed');
  if (isRevoked(registered, upload, world.now())) throw refused('the operator has revoked its token');
}

function isRevoked({ revocations }: RegisteredIssuer, upload: GivenUpload, now: number): boolean {
  if (revocations === undefined || upload.holder === undefined) return false;
  const known = revokedUntil.get(revocations) ?? new Map<string, number>();
  revokedUntil.set(revocations, known);
  let until = known.get(upload.holder);
  if (until === undefined) {
    until = findEnd(revocations, upload);
    if (known.size >= 10_000) known.clear();
    known.set(upload.holder, until);
  }
  // A URL that ends before the revocation stays refused, even if clocks differ.
  return now < until || (until > 0 && upload.expiresAt <= until);
}

function findEnd(revocations: Revocations, upload: GivenUpload): number {
  let end = 0;
  for (const claim of ['jti', 'sub'] as const) {
    for (const [value, until] of revocations[claim]) {
      if (until > end && upload.isHeldBy(claim, value)) end = until;
    }
  }
  return end;
}

const refused = (why: string): ApiError =>
  new ApiError('FORBIDDEN', `this upload URL is not good any more: ${why}; lease the node with a good token`);
