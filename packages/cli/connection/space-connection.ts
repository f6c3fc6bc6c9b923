/** Finds the Space and the token of a client command, and explains failures to a person. */

import {
  CasError,
  CatalogError,
  type Client,
  type ClientOptions,
  createClient,
  createPatientClient,
  type FetchFunction,
  type ProgressReporter,
  type Sha256,
  SILENT_PROGRESS,
} from '@holdfast/client/push';
import { digestAtOnce, findZstd } from '@holdfast/files/common';
import {
  type Authority,
  isPathId,
  isRefDomain,
  OPERATIONS,
  PATH_ID_CHARACTERS_MAX,
} from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { readSecretText } from '../files.ts';
import { jsonOption, parsePathIdValue } from '../options.ts';
import { type JobContext, type JobOptions, runJob, runShortJob } from '../progress/run-job.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from '../terminal/interruption.ts';
import { explainCasError } from './advice.ts';
import { fetchOutside, findProxyFailure } from './outgoing-fetch.ts';
import { getProfile, type Profile, parseProfileName, readProfiles } from './profiles.ts';
import { findClaims } from './token-claims.ts';
import { rereadToken, TOKEN_FILE } from './token-file.ts';

/** The sources of the four parts of a connection, in order: a flag, a profile that a flag names, a variable, any other profile. */
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

interface Settings {
  readonly url: string | undefined;
  readonly app: string | undefined;
  readonly space: string | undefined;
  /** the one to use now; undefined: none was given */
  readonly token: CurrentToken | undefined;
}

/** Throws CliError when a profile or a file that is needed cannot be read. */
async function findSettings(flags: ConnectionFlags): Promise<Settings> {
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

const HELP_AFTER = `
The server, App, Space and token come from flags, then from the profile that --profile names, then from the variables
HOLDFAST_URL, HOLDFAST_APP, HOLDFAST_SPACE and HOLDFAST_TOKEN, then from the profile of HOLDFAST_PROFILE or the default one
(holdfast login). A token is never an argument: other users could read it in the list of processes.`;

/** Adds the flags of every client command. One that changes something says by `sayWhenInterrupted` what is kept from then on. */
export function withConnection(command: Command, help?: string): Command {
  command.addOption(jsonOption()).hook('preAction', () => sayWhenInterrupted(NOTHING_CHANGED));
  if (help !== undefined) command.addHelpText('after', help);
  return command
    .option('--url <url>', 'address of the server (or HOLDFAST_URL)')
    .option('--app <app-id>', 'the App (or HOLDFAST_APP)', parsePathIdValue)
    .option('--space <space-id>', 'the Space (or HOLDFAST_SPACE)', parsePathIdValue)
    .option('--token-file <file>', 'file that holds the token alone (or HOLDFAST_TOKEN, the token itself)')
    .option('--profile <name>', 'a connection kept by holdfast login (or HOLDFAST_PROFILE)', parseProfileName)
    .addHelpText('after', HELP_AFTER);
}

/** For a job, which tries again by itself and tells what it waits for. */
export const JOB_CLIENT = { retry: { attemptsMax: 1 }, isJob: true } as const;

interface ClientSettings extends Pick<ClientOptions, 'retry'> {
  readonly isJob?: true;
  readonly onRequest?: (() => void) | undefined;
  /** watches requests and answers */
  readonly around?: ((send: FetchFunction) => FetchFunction) | undefined;
}

/** Does `work` with a client for the Space of flags and variables; says what it waits for when that lasts. Throws CliError. */
export async function withClient<T>(
  flags: ConnectionFlags,
  work: (client: Client, progress: ProgressReporter) => Promise<T>,
  { isJob, retry, onRequest = () => undefined, around = (send) => send }: ClientSettings = {},
): Promise<T> {
  const connection = await readConnection(flags);
  const { baseUrl, token } = connection;
  try {
    const counting = (send: FetchFunction): FetchFunction => {
      return (url, init) => {
        onRequest();
        return send(url, init);
      };
    };
    if (isJob) {
      const fetch = around(counting(fetchOutside));
      return await work(openClient(connection, { retry, fetch }), SILENT_PROGRESS);
    }
    return await runShortJob(flags, (progress) => {
      const fetch = counting(tellWaits(progress, baseUrl));
      return work(openClient(connection, { retry, fetch }), progress);
    });
  } catch (error) {
    if (error instanceof CatalogError) throw new CliError(error.message, { cause: error });
    if (!(error instanceof CasError)) throw error;
    const used = { ...connection, token: token() };
    throw new CliError(explainCasError(error, used), { cause: error });
  }
}

interface JobClients {
  /** sends each request once: the job tries again by itself */
  readonly client: Client;
  /** sends requests again, and tells what it waits for */
  readonly patient: Client;
}

/** Attempts of one request of a command that someone waits for. */
export const SHORT_ATTEMPTS_MAX = 4;

const createSha256 = (): Sha256 => new Bun.CryptoHasher('sha256');

export function makePatient(client: Client, context: JobContext): Client {
  return createPatientClient(client, { ...context, createSha256 });
}

/** Does `work` under a view of its own, with the patience of a long job. Throws as `withClient` does. */
export function withJob<T>(
  job: JobOptions & { readonly flags: ConnectionFlags },
  work: (clients: JobClients, context: JobContext) => Promise<T>,
  onRequest?: () => void,
): Promise<T> {
  return withClient(
    job.flags,
    (client) => runJob(job, (context) => work({ client, patient: makePatient(client, context) }, context)),
    { ...JOB_CLIENT, onRequest },
  );
}

/** The App and the Space that the flags and variables name. Throws as `withClient` does. */
export async function findSpace(
  flags: ConnectionFlags,
): Promise<{ readonly app: string; readonly space: string }> {
  const { appId, spaceId } = await readConnection(flags);
  return { app: appId, space: spaceId };
}

/** Does `work` for someone who waits: few attempts, and a message only when it stalls. Throws as `withClient` does. */
export function withShortJob<T>(
  flags: ConnectionFlags,
  work: (clients: JobClients, progress: ProgressReporter) => Promise<T>,
): Promise<T> {
  return withClient(
    flags,
    (client) =>
      runShortJob(flags, (progress) => {
        const patient = createPatientClient(client, { attemptsMax: SHORT_ATTEMPTS_MAX, progress });
        return work({ client, patient }, progress);
      }),
    JOB_CLIENT,
  );
}

/** Nothing of a body that is longer: a hostile server could send any number of bytes. */
async function readText({ body }: Response, bytesMax: number): Promise<string> {
  if (body === null) return '';
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body.getReader();
  while (length <= bytesMax) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks).toString();
    length += value.length;
    chunks.push(value);
  }
  // If two readers share a body, this ends only when the other reader ends too.
  void reader.cancel().catch(() => undefined);
  return '';
}

/** `fetch` whose waits are known: for an answer, and after a refusal that may pass until it is sent again. */
function tellWaits(progress: ProgressReporter, baseUrl: string): FetchFunction {
  let isAnswered = (): void => undefined;
  return async (url, init) => {
    isAnswered();
    isAnswered = progress.waitFor(`no answer yet from ${baseUrl}`);
    try {
      const response = await fetchOutside(url, init);
      if (!response.ok) await tellRefusal(response);
      else if (url.endsWith('/content')) isAnswered();
      return response;
    } catch (error) {
      isAnswered();
      const proxy = findProxyFailure(error);
      isAnswered = progress.waitFor(`${proxy ?? `${baseUrl} cannot be reached`}; trying again`);
      throw error;
    }
  };

  async function tellRefusal(response: Response): Promise<void> {
    // A packed body is nobody's to read: the client refuses it.
    const isPacked = response.headers.has('content-encoding');
    const text = isPacked ? '' : await readText(response.clone(), 64 * 1024).catch(() => '');
    const said = /"message":"([^"\\]{1,300})"/.exec(text)?.[1] ?? `status ${response.status}`;
    isAnswered();
    isAnswered = progress.waitFor(`the server said: ${said}; trying again`);
  }
}

interface Connection {
  readonly baseUrl: string;
  readonly appId: string;
  readonly spaceId: string;
  /** the one to use now */
  readonly token: (refused?: string) => string;
}

/** By their flags. Each is read once: a token that comes through a pipe can be read no second time. */
const known = new Map<string, Promise<Connection>>();

/** Throws UsageError when something is missing or cannot be right, CliError when a file cannot be read. */
function readConnection(flags: ConnectionFlags): Promise<Connection> {
  const { url, app, space, tokenFile, profile } = flags;
  const key = JSON.stringify([url, app, space, tokenFile, profile]);
  const connection = known.get(key) ?? findConnection(flags);
  known.set(key, connection);
  return connection;
}

async function findConnection(flags: ConnectionFlags): Promise<Connection> {
  const { url: baseUrl, app: appId, space: spaceId, token } = await findSettings(flags);
  const missing = [
    ...(baseUrl === undefined ? ['HOLDFAST_URL or --url'] : []),
    ...(appId === undefined ? ['HOLDFAST_APP or --app'] : []),
    ...(spaceId === undefined ? ['HOLDFAST_SPACE or --space'] : []),
    ...(token === undefined ? ['HOLDFAST_TOKEN or --token-file'] : []),
  ];
  if (baseUrl === undefined || appId === undefined || spaceId === undefined || token === undefined) {
    throw new UsageError(
      `the connection is not complete; set ${missing.join(', and ')}, or keep one with: holdfast login NAME`,
    );
  }
  if (!isPathId(appId)) throw wrongId(appId, 'HOLDFAST_APP or --app');
  if (!isPathId(spaceId)) throw wrongId(spaceId, 'HOLDFAST_SPACE or --space');
  return { baseUrl, appId, spaceId, token };
}

function openClient(connection: Connection, options: Pick<ClientOptions, 'retry' | 'fetch'>): Client {
  try {
    return createClient({
      ...{ ...connection, createSha256, digest: digestAtOnce, zstd: findZstd(), fetch: fetchOutside },
      ...options,
    });
  } catch (error) {
    // Only the address can be wrong here: the ids have been looked at, and nothing has been sent.
    if (!(error instanceof CasError)) throw error;
    throw new UsageError(
      `${JSON.stringify(connection.baseUrl)} is no address of a server: write http://HOST:PORT or https://HOST, without user, ? or #; check HOLDFAST_URL or --url`,
    );
  }
}

function wrongId(id: string, name: string): UsageError {
  return new UsageError(
    `${JSON.stringify(id)} is no id: it must have 1 to ${PATH_ID_CHARACTERS_MAX} characters, no control characters, and be neither . nor ..; check ${name}`,
  );
}

/** Names the Space and refDomain of flags, variables and token. The token is not verified: the name only tells places apart. */
export async function describeScope(flags: ConnectionFlags): Promise<string> {
  const { baseUrl, appId, spaceId, token } = await readConnection(flags);
  const domain = findClaims(token())?.refDomain;
  return JSON.stringify([baseUrl, appId, spaceId, typeof domain === 'string' ? domain : '']);
}

/** Refuses a token that cannot commit root refs, before a long job ends in that. One that cannot be read is left to the server. */
export async function requireRootRefToken(flags: ConnectionFlags): Promise<void> {
  await requireAuthorities(flags, [OPERATIONS.updateRootRefs.authority], 'no root ref can be made');
}

/** The same for any work with the refDomain of the token. `consequence` completes "the token lacks this, so …". */
export async function requireAuthorities(
  flags: ConnectionFlags,
  authorities: readonly Authority[],
  consequence: string,
): Promise<void> {
  const { token } = await readConnection(flags);
  const claims = findClaims(token());
  if (claims === undefined) return;
  const { refDomain, permissions } = claims;
  const missing = Array.isArray(permissions)
    ? authorities.filter((authority) => !permissions.includes(authority))
    : [];
  const hasDomain = typeof refDomain === 'string' && isRefDomain(refDomain);
  if (missing.length === 0 && hasDomain) return;
  const lacks = [
    ...(missing.length === 0 ? [] : [`does not permit ${missing.join(', ')}`]),
    ...(hasDomain ? [] : ['names no refDomain']),
  ];
  throw new CliError(
    `the token ${lacks.join(' and ')}, so ${consequence}; nothing was sent. Use one made with --permission ${authorities.join(',')} and --ref-domain`,
  );
}
