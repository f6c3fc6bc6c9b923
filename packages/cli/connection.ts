/** Which Space the client commands talk to and on whose authority, and what their failures mean to a person. */
import {
  CasError,
  type Client,
  type ClientOptions,
  createClient,
  type RequestOperation,
} from '@holdfast/client';
import { isPathId, isRefDomain, OPERATIONS, PATH_ID_CHARACTERS_MAX } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError, UsageError } from './cli-error.ts';
import { readTextFile } from './files.ts';
import { parsePathIdValue } from './options.ts';

export interface ConnectionFlags {
  readonly url?: string;
  readonly app?: string;
  readonly space?: string;
  readonly tokenFile?: string;
}

const ROOT_REFS_AUTHORITY = OPERATIONS.updateRootRefs.authority;

const HELP_AFTER = `
The server, App, Space and token come from the variables HOLDFAST_URL, HOLDFAST_APP, HOLDFAST_SPACE and HOLDFAST_TOKEN;
a flag wins over its variable. A token is never an argument: other users could read it in the list of processes.`;

/** Adds the flags that every client command has. */
export function withConnection(command: Command): Command {
  return command
    .option('--url <url>', 'address of the server (or HOLDFAST_URL)')
    .option('--app <app-id>', 'the App (or HOLDFAST_APP)', parsePathIdValue)
    .option('--space <space-id>', 'the Space (or HOLDFAST_SPACE)', parsePathIdValue)
    .option('--token-file <file>', 'file that holds the token alone (or HOLDFAST_TOKEN, the token itself)')
    .addHelpText('after', HELP_AFTER);
}

/** Does `work` with a client for the Space that the flags and variables name. Throws CliError for what the SDK throws. */
export async function withClient<T>(
  flags: ConnectionFlags,
  work: (client: Client) => Promise<T>,
  options: Pick<ClientOptions, 'retry' | 'fetch'> = {},
): Promise<T> {
  const client = openClient(flags, options);
  try {
    return await work(client);
  } catch (error) {
    throw error instanceof CasError ? new CliError(explain(error), { cause: error }) : error;
  }
}

function openClient(flags: ConnectionFlags, options: Pick<ClientOptions, 'retry' | 'fetch'>): Client {
  const baseUrl = findSetting(flags.url, 'HOLDFAST_URL');
  const appId = findSetting(flags.app, 'HOLDFAST_APP');
  const spaceId = findSetting(flags.space, 'HOLDFAST_SPACE');
  const token = findToken(flags);
  const missing = [
    ...(baseUrl === undefined ? ['HOLDFAST_URL or --url'] : []),
    ...(appId === undefined ? ['HOLDFAST_APP or --app'] : []),
    ...(spaceId === undefined ? ['HOLDFAST_SPACE or --space'] : []),
    ...(token === undefined ? ['HOLDFAST_TOKEN or --token-file'] : []),
  ];
  if (baseUrl === undefined || appId === undefined || spaceId === undefined || token === undefined) {
    throw new UsageError(`the connection is not complete; set ${missing.join(', and ')}`);
  }
  if (!isPathId(appId)) throw wrongId(appId, 'HOLDFAST_APP or --app');
  if (!isPathId(spaceId)) throw wrongId(spaceId, 'HOLDFAST_SPACE or --space');
  try {
    return createClient({
      baseUrl,
      appId,
      spaceId,
      token: flags.tokenFile === undefined ? token : rereadToken(flags.tokenFile, token),
      createSha256: () => new Bun.CryptoHasher('sha256'),
      ...options,
    });
  } catch (error) {
    // Only what was given can be wrong here: nothing has been sent.
    throw error instanceof CasError ? new UsageError(`${error.message}; check HOLDFAST_URL or --url`) : error;
  }
}

function wrongId(id: string, name: string): UsageError {
  return new UsageError(
    `${JSON.stringify(id)} is no id: it must have 1 to ${PATH_ID_CHARACTERS_MAX} characters, no control characters, and be neither . nor ..; check ${name}`,
  );
}

function findToken({ tokenFile }: ConnectionFlags): string | undefined {
  if (tokenFile === undefined) return findSetting(undefined, 'HOLDFAST_TOKEN');
  return readTextFile(tokenFile, 'the token file').trim();
}

/** How long a token that was read is used before its file is looked at again. */
const TOKEN_REREAD_MS = 1_000;

/** A job may outlive its token: whoever writes a new one into the file keeps it going. `now`: ms of a clock that never steps back. */
export function rereadToken(file: string, first: string, now = () => performance.now()): () => string {
  let token = first;
  let readAt = now();
  return () => {
    if (now() - readAt > TOKEN_REREAD_MS) {
      // A shell empties the file (`holdfast token … > FILE`) before there is a new one to write: until then the old one is good.
      token = readTextFile(file, 'the token file').trim() || token;
      readAt = now();
    }
    return token;
  };
}

/**
 * Names the Space and refDomain that the flags, variables and token speak of. The token is not verified here: the name only
 * tells apart what belongs to different places.
 */
export function describeScope(flags: ConnectionFlags): string {
  const place = [
    findSetting(flags.url, 'HOLDFAST_URL'),
    findSetting(flags.app, 'HOLDFAST_APP'),
    findSetting(flags.space, 'HOLDFAST_SPACE'),
  ];
  return JSON.stringify([...place.map((part) => part ?? ''), readRefDomain(findToken(flags) ?? '')]);
}

/**
 * Refuses a token that says itself that it cannot commit root refs, before a long job ends in that. What cannot be read, or
 * is wrong in another way, is left for the server to say. Throws CliError.
 */
export function requireRootRefToken(flags: ConnectionFlags): void {
  const claims = findClaims(findToken(flags) ?? '');
  if (claims === undefined) return;
  const { refDomain, permissions } = claims;
  const isPermitted = !Array.isArray(permissions) || permissions.includes(ROOT_REFS_AUTHORITY);
  if (isPermitted && typeof refDomain === 'string' && isRefDomain(refDomain)) return;
  const what = isPermitted ? 'names no refDomain' : `does not permit ${ROOT_REFS_AUTHORITY}`;
  throw new CliError(
    `the token ${what}, so no root ref can be made; nothing was sent. Use one made with --permission ${ROOT_REFS_AUTHORITY} and --ref-domain`,
  );
}

function readRefDomain(token: string): string {
  const domain = findClaims(token)?.refDomain;
  return typeof domain === 'string' ? domain : '';
}

/** What a token says, unverified; undefined when it is none that can be read. */
function findClaims(token: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    return typeof claims === 'object' && claims !== null
      ? (claims as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    // The server says what is wrong with it.
    return undefined;
  }
}

function findSetting(flag: string | undefined, variable: string): string | undefined {
  return flag ?? (process.env[variable] || undefined);
}

const ADVICE: Partial<Record<CasError['code'], string>> = {
  APP_SUSPENDED: 'ask who runs the server, or run: holdfast app resume',
  TOKEN_UNAVAILABLE: 'put the token alone into HOLDFAST_TOKEN or the --token-file',
  missing_token: 'set HOLDFAST_TOKEN or --token-file',
  invalid_token:
    'it may have expired: make another with holdfast token, and check HOLDFAST_TOKEN or --token-file',
  unsupported_algorithm: 'sign it with an algorithm the App accepts',
  unknown_issuer: 'register the App with holdfast app add, or check which issuer signed the token',
  resource_scope_mismatch:
    'use a token made for this App and Space; root refs need one made with --ref-domain',
  MALFORMED_RESPONSE: 'the address is that of HOLDFAST_URL or --url',
  RESPONSE_TOO_LARGE: 'write it to a file or a pipe instead',
};

/** One line: what happened, by code and words, and what to do. */
function explain(error: CasError): string {
  const status = error.status === undefined ? '' : ` ${error.status}`;
  const advice =
    error.code === 'insufficient_permission'
      ? adviseOnPermission(error.requestOperation)
      : ADVICE[error.code];
  return `${error.message} (${error.code}${status})${advice === undefined ? '' : `; ${advice}`}`;
}

function adviseOnPermission(operation: RequestOperation): string {
  const authority =
    operation in OPERATIONS ? OPERATIONS[operation as keyof typeof OPERATIONS].authority : 'it';
  return `use a token made with --permission ${authority}`;
}
