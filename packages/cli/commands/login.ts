/** `holdfast login`, `logout` and `profiles`: connections kept under a name, so that a command needs no variables. */

import { CasError, type Client, createClient } from '@holdfast/client';
import { type Command, Option } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { explainCasError } from '../connection/advice.ts';
import { fetchOutside } from '../connection/outgoing-fetch.ts';
import {
  getProfile,
  type Profile,
  parseProfileName,
  readProfiles,
  writeProfiles,
} from '../connection/profiles.ts';
import { findClaims, findExpiry } from '../connection/token-claims.ts';
import { TOKEN_FILE } from '../connection/token-file.ts';
import { readSecretText } from '../files.ts';
import { readInput } from '../node-input.ts';
import { jsonOption, parsePathIdValue } from '../options.ts';
import { formatTime } from '../progress/format-progress.ts';
import { saying } from '../progress/waits.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from '../terminal/interruption.ts';
import { printable, printJson, printLine, printNote, printTable } from '../terminal/output.ts';
import { ask, askSecret } from '../terminal/questions.ts';
import { resolvePath } from '../trees/given-path.ts';

interface LoginFlags {
  readonly url?: string;
  readonly app?: string;
  readonly space?: string;
  readonly tokenFile?: string;
  readonly default?: true;
  /** false after --no-check */
  readonly check: boolean;
  readonly json?: true;
}

const LOGIN_HELP = `
What no flag and no variable (HOLDFAST_URL, HOLDFAST_APP, HOLDFAST_SPACE) says is asked on the terminal. The token is read
from stdin where that is no terminal, else taken from HOLDFAST_TOKEN, else asked for without being shown; with --token-file
the profile keeps the path, so that renewing the file renews the profile. Profiles are kept in
$XDG_CONFIG_HOME/holdfast/profiles.json or ~/.config/holdfast/profiles.json, which you alone can read. The first one becomes
the default.

Examples:
  holdfast login work
  holdfast token --key private.jwk … | holdfast login work --url https://cas.example --app walk --space home
  holdfast push ./site --profile work`;

export function registerLoginCommand(program: Command): void {
  program
    .command('login')
    .description('keep a connection under a name')
    .argument('<name>', 'the profile', parseProfileName)
    .option('--url <url>', 'address of the server')
    .option('--app <app-id>', 'the App', parsePathIdValue)
    .option('--space <space-id>', 'the Space', parsePathIdValue)
    .option('--token-file <file>', 'file that holds the token alone; its path is kept')
    .option('--default', 'use this profile where none is named')
    .addOption(new Option('--no-check', 'keep it without asking the server'))
    .addOption(jsonOption())
    .addHelpText('after', LOGIN_HELP)
    .action(login);
}

async function login(name: string, flags: LoginFlags): Promise<void> {
  sayWhenInterrupted(NOTHING_CHANGED);
  // Before any question: a file that cannot be used is told first.
  readProfiles();
  const profile = await askProfile(flags);
  const token = await readToken(profile);
  const found = await checkConnection(profile, token, flags.check);
  const profiles = readProfiles();
  const isDefault = flags.default === true || profiles.default === undefined || profiles.default === name;
  writeProfiles({
    default: isDefault ? name : profiles.default,
    byName: new Map(profiles.byName).set(name, profile),
  });
  const shown = describeProfile(name, profile, token, isDefault);
  if (flags.json) return printJson(shown);
  printLine(
    `profile ${name}${isDefault ? ' (the default)' : ''}: App ${profile.app}, Space ${profile.space} at ${profile.url}`,
  );
  printNote(`${found}; the token ${describeToken(token)}`);
}

async function askProfile(flags: LoginFlags): Promise<Profile> {
  const isTerminal = process.stdin.isTTY === true;
  const find = async (
    given: string | undefined,
    variable: string,
    what: string,
    flag: string,
  ): Promise<string> => {
    const known = given ?? (process.env[variable] || undefined);
    if (known !== undefined) return known;
    const answer = isTerminal ? await ask(`${what}: `) : '';
    if (answer === '') throw new UsageError(`${what} is missing; give ${flag} or set ${variable}`);
    return answer;
  };
  const url = await find(flags.url, 'HOLDFAST_URL', 'address of the server', '--url');
  const app = await find(flags.app, 'HOLDFAST_APP', 'App', '--app');
  const space = await find(flags.space, 'HOLDFAST_SPACE', 'Space', '--space');
  if (flags.tokenFile !== undefined) return { url, app, space, tokenFile: resolvePath(flags.tokenFile) };
  return { url, app, space, token: await askToken(isTerminal) };
}

async function askToken(isTerminal: boolean): Promise<string> {
  const piped = isTerminal ? '' : new TextDecoder().decode(await readInput('-')).trim();
  const token =
    piped || process.env.HOLDFAST_TOKEN || (isTerminal ? await askSecret('token (not shown): ') : '');
  if (token === '') throw new UsageError('the token is missing; pipe it in, or give --token-file FILE');
  return token;
}

async function readToken({ token, tokenFile }: Profile): Promise<string> {
  return token ?? (await readSecretText(tokenFile as string, TOKEN_FILE)).trim();
}

/** Asks the server about the token and returns the answer for people. Throws CliError, and keeps nothing, when the server refuses. */
async function checkConnection({ url, app, space }: Profile, token: string, asks: boolean): Promise<string> {
  const used = { baseUrl: url, appId: app, spaceId: space, token };
  let client: Client;
  try {
    client = createClient({ ...used, token, fetch: fetchOutside });
  } catch (error) {
    throw new UsageError(error instanceof CasError ? error.reason : String(error));
  }
  if (!asks) return 'the server was not asked';
  try {
    await saying(`no answer yet from ${url}`, () => askServer(client, token));
    return 'the server accepts it';
  } catch (error) {
    if (!(error instanceof CasError)) throw error;
    throw new CliError(
      `${explainCasError(error, used)}; nothing was kept (--no-check keeps it all the same)`,
    );
  }
}

const ABSENT_HASH = '0'.repeat(64);

/** Any request that the token permits: each looks at issuer, App, Space, key and times first. */
async function askServer(client: Client, token: string): Promise<void> {
  try {
    const permissions = findClaims(token)?.permissions;
    if (Array.isArray(permissions) && permissions.includes('cas:usage:read')) await client.getUsage();
    else await client.readMetadata(ABSENT_HASH);
  } catch (error) {
    const isAccepted =
      error instanceof CasError &&
      (error.code === 'insufficient_permission' ||
        (error.code === 'NOT_FOUND' && !error.reason.includes('route')));
    if (!isAccepted) throw error;
  }
}

export function registerLogoutCommand(program: Command): void {
  program
    .command('logout')
    .description('forget a connection and its token')
    .argument('<name>', 'the profile', parseProfileName)
    .addOption(jsonOption())
    .action((name: string, flags: { readonly json?: true }) => {
      const profiles = readProfiles();
      getProfile(profiles, name);
      const byName = new Map(profiles.byName);
      byName.delete(name);
      writeProfiles({ default: profiles.default === name ? undefined : profiles.default, byName });
      if (flags.json) printJson({ name, removed: true });
      else printLine(`profile ${name} is forgotten; its token is good until it expires`);
    });
}

export function registerProfilesCommand(program: Command): void {
  program
    .command('profiles')
    .description('list the connections that are kept; their tokens are not shown')
    .addOption(jsonOption())
    .action(async (flags: { readonly json?: true }) => {
      sayWhenInterrupted(NOTHING_CHANGED);
      const profiles = readProfiles();
      const rows = await Promise.all([...profiles.byName].map((entry) => listRow(entry, profiles.default)));
      if (flags.json) return printJson(rows.map(({ shown }) => shown));
      if (rows.length === 0) return printNote('no profile is kept; make one with: holdfast login NAME');
      printTable(
        ['PROFILE', 'SERVER', 'APP', 'SPACE', 'TOKEN'],
        rows.map(({ cells }) => cells),
      );
    });
}

async function listRow([name, profile]: readonly [string, Profile], ofDefault: string | undefined) {
  const isDefault = name === ofDefault;
  // One file that is gone does not hide the other profiles.
  const token = await readToken(profile).catch(() => undefined);
  const state = token === undefined ? 'cannot be read' : describeToken(token);
  const from = profile.tokenFile === undefined ? '' : `${profile.tokenFile}: `;
  return {
    shown: describeProfile(name, profile, token, isDefault),
    cells: [
      isDefault ? `${name} (default)` : name,
      profile.url,
      profile.app,
      profile.space,
      `${from}${state}`,
    ],
  };
}

function describeProfile(
  name: string,
  profile: Profile,
  token: string | undefined,
  isDefault: boolean,
): unknown {
  const { url, app, space, tokenFile } = profile;
  const expiresAt = findExpiry(findClaims(token ?? '')) ?? null;
  return {
    name,
    isDefault,
    url,
    app,
    space,
    tokenFile: tokenFile ?? null,
    expiresAt,
    isExpired: isPast(expiresAt),
  };
}

function isPast(at: number | null): boolean {
  return at !== null && at <= Date.now();
}

function describeToken(token: string): string {
  const expiresAt = findExpiry(findClaims(token));
  if (expiresAt === undefined) return 'does not say when it expires';
  const at = printable(new Date(expiresAt).toISOString());
  return isPast(expiresAt) ? `expired ${formatTime(Date.now() - expiresAt)} ago` : `is good until ${at}`;
}
