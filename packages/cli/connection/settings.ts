/** The sources of the four parts of a connection, in order: a flag, a profile that a flag names, a variable, any other profile. */
import { readSecretText } from '../files.ts';
import { getProfile, type Profile, readProfiles } from './profiles.ts';
import { rereadToken, TOKEN_FILE } from './token-file.ts';

export interface ConnectionFlags {
  readonly url?: string;
  readonly app?: string;
  readonly space?: string;
  readonly tokenFile?: string;
  readonly profile?: string;
  /** of every command with a connection, though it says nothing of it */
  readonly json?: true;
  /** of every job */
  readonly quiet?: true;
}

/** A token that the server refused may have been replaced by now. */
type CurrentToken = (refused?: string) => string;

export interface Settings {
  readonly url: string | undefined;
  readonly app: string | undefined;
  readonly space: string | undefined;
  /** the one to use now; undefined: none was given */
  readonly token: CurrentToken | undefined;
}

/** Throws CliError when a profile or a file that is needed cannot be read. */
export async function findSettings(flags: ConnectionFlags): Promise<Settings> {
  const [first, last] = findProfiles(flags);
  const url = flags.url ?? first?.url ?? variable('HOLDFAST_URL') ?? last?.url;
  return {
    url,
    app: flags.app ?? first?.app ?? variable('HOLDFAST_APP') ?? last?.app,
    space: flags.space ?? first?.space ?? variable('HOLDFAST_SPACE') ?? last?.space,
    token: await findToken(flags, first, last, url),
  };
}

/** The profile that comes before the variables, and the one that comes after them. */
function findProfiles(flags: ConnectionFlags): [Profile | undefined, Profile | undefined] {
  if (flags.profile !== undefined) return [getProfile(readProfiles(), flags.profile), undefined];
  const named = variable('HOLDFAST_PROFILE');
  if (named !== undefined) return [undefined, getProfile(readProfiles(), named)];
  const isComplete =
    (flags.url ?? variable('HOLDFAST_URL')) !== undefined &&
    (flags.app ?? variable('HOLDFAST_APP')) !== undefined &&
    (flags.space ?? variable('HOLDFAST_SPACE')) !== undefined &&
    (flags.tokenFile ?? variable('HOLDFAST_TOKEN')) !== undefined;
  // The file is not needed then, so an error in it must not stop the command.
  if (isComplete) return [undefined, undefined];
  const profiles = readProfiles();
  return [undefined, profiles.default === undefined ? undefined : profiles.byName.get(profiles.default)];
}

async function findToken(
  flags: ConnectionFlags,
  first: Profile | undefined,
  last: Profile | undefined,
  url: string | undefined,
): Promise<CurrentToken | undefined> {
  if (flags.tokenFile !== undefined) return openTokenFile(flags.tokenFile);
  const given = first === undefined ? variable('HOLDFAST_TOKEN') : undefined;
  if (given !== undefined) return () => given;
  const profile = first ?? last;
  // A token is a secret between its owner and one server: it goes to no other that a flag or variable may name.
  if (profile === undefined || profile.url !== url) return undefined;
  const { token, tokenFile } = profile;
  if (tokenFile !== undefined) return openTokenFile(tokenFile);
  return token === undefined ? undefined : () => token;
}

async function openTokenFile(file: string): Promise<CurrentToken> {
  return rereadToken(file, (await readSecretText(file, TOKEN_FILE)).trim());
}

function variable(name: string): string | undefined {
  return process.env[name] || undefined;
}
