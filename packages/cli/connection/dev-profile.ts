/** The profile of `serve --dev`: a first trial on one machine needs no variables. */
import { type Profile, readProfiles, writeProfiles } from './profiles.ts';
import { findClaims } from './token-claims.ts';

const NAME = 'dev';

/**
 * Keeps `access` as the profile `dev`. It becomes the default where there is none; a default of the person's stays, and so does a
 * profile of that name that another server's token is in.
 * @returns the words by which a command uses it; undefined if it is not kept: nothing but comfort is lost then
 */
export function keepDevProfile(access: Profile & { readonly token: string }): string | undefined {
  try {
    const profiles = readProfiles();
    const former = profiles.byName.get(NAME);
    if (former !== undefined && issuerOf(former.token) !== issuerOf(access.token)) return undefined;
    const { url, app, space, token } = access;
    const isDefault = profiles.default === undefined || profiles.default === NAME;
    writeProfiles({
      default: isDefault ? NAME : profiles.default,
      byName: new Map(profiles.byName).set(NAME, { url, app, space, token }),
    });
    return isDefault ? '' : ` --profile ${NAME}`;
  } catch {
    // No home, a file that is not ours to write, a full disk: the variables that are printed do the same.
    return undefined;
  }
}

function issuerOf(token: string | undefined): unknown {
  return findClaims(token ?? '')?.iss;
}
