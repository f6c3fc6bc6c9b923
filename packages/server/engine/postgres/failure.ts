/** Sorts the errors of PostgreSQL, the driver and the network. The results hold no URL, query or parameter. */
import { ApiError } from '@holdfast/protocol';
import { CounterBroken, InvariantViolation } from '../../core/invariant.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { codeOf } from '../../error-code.ts';
import { formatAuthority, type PostgresHost } from '../address.ts';
import { EngineRefused } from '../refused.ts';

/** The server, or the network to it, has said nothing for so long that it is taken to hang. */
const NO_ANSWER = 'NO_ANSWER';

/** The connection is lost or unusable, and the outcome of its last statement is unknown. */
const LOST_CODES: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  NO_ANSWER,
  // The server has closed the connection because it was idle in a transaction for too long.
  '25P03',
  '57P01',
  '57P02',
  '57P03',
  '57P05',
  '53300',
]);

/** The server takes no writes and refused a statement that would write; the session is closed. */
export const READ_ONLY = '25006';

const DEADLOCK = '40P01';
/** Logarithm of zero: a row that was read without a lock has changed (sql-fragments.ts). */
const CHANGED = '2201E';
/** A serialization failure, a deadlock, a lock that took too long, a row that another has just made: trying again may help. */
const REPEATABLE_CODES: ReadonlySet<string> = new Set([
  '40001',
  DEADLOCK,
  '55P03',
  '23505',
  CHANGED,
  READ_ONLY,
]);

/** A square root of less than zero: the guard of wire/session.ts has found another session than the one that was set up. */
export const SWITCHED = '2201F';
/** A statement that this session has prepared is not there, or one that it has not is. */
const NOT_PREPARED = '26000';
const PREPARED_BY_ANOTHER = '42P05';
const POOLED_CODES: ReadonlySet<string> = new Set([SWITCHED, NOT_PREPARED, PREPARED_BY_ANOTHER]);

/** A CHECK of the schema: a count would be negative. */
const CHECK_VIOLATED = '23514';
/** Division by zero: the guard of statements.ts failed, because a row was not as it was read. */
const GUARD_FAILED = '22012';

/** No buckets to count in: a row that must be there is gone (root-ref-statements.ts). */
const MISSED = '2201G';
/** A sum of values has no room in an integer: one of them is wrong. */
const OVERFLOWN = '22003';

/** A page or row is not what was written (data_corrupted, index_corrupted). An internal error (XX000) proves nothing. */
const DAMAGE_CODES: ReadonlySet<string> = new Set(['XX001', 'XX002', MISSED, OVERFLOWN]);

const NO_HOST = 'NO_HOST';
export const NO_PASSWORD = 'NO_PASSWORD';
export const NOT_BOUND = 'NOT_BOUND';
/** A file of the address cannot be used; the message says which, and why. */
const UNUSABLE_FILE = 'UNUSABLE_FILE';

const UNTRUSTED = 'its certificate is not trusted: give the file of its authority as sslrootcert';

const POOLED =
  'a pooler in transaction mode is in between: each transaction gets another session, without our settings. Give the address of PostgreSQL itself, or of a pooler in session mode (PgBouncer: pool_mode = session; Supabase: port 5432; Neon: the host without -pooler)';

const DAMAGED = 'a page of a table or an index is damaged: run holdfast check, which names it';

const HINTS: Readonly<Record<string, string>> = {
  XX001: DAMAGED,
  XX002: DAMAGED,
  [SWITCHED]: POOLED,
  [NOT_PREPARED]: POOLED,
  [PREPARED_BY_ANOTHER]: POOLED,
  [MISSED]: 'a row of a domain of root refs is damaged: restore a backup of the rows',
  [OVERFLOWN]: 'a value of a row is damaged: run holdfast check, which names it',
  '28P01': 'PostgreSQL refuses the password: check user and password',
  '28000': 'PostgreSQL refuses this user from here: check user, TLS and its pg_hba.conf',
  '3D000': 'the database does not exist: create it',
  '53100': 'the disk of PostgreSQL is full: free some space',
  '53300': 'PostgreSQL has no connection left: raise its max_connections or give each process fewer',
  '57014': 'a statement took too long: check the load of PostgreSQL',
  [READ_ONLY]:
    'it takes no writes, as a standby, or by default_transaction_read_only: give the address of the primary, or all addresses, separated by commas',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  CERT_HAS_EXPIRED: 'its certificate has expired: renew it, and check the clocks',
  [NO_PASSWORD]:
    'the server asks for a password, and none was given: put one into the URL, PGPASSWORD or a password file (PGPASSFILE, ~/.pgpass)',
  [NOT_BOUND]:
    'channel_binding=require, and the server cannot bind the proof of the password to its certificate: use TLS and scram-sha-256, or channel_binding=prefer',
  ENOENT: 'no socket is there: check that PostgreSQL runs, and the folder of the parameter host',
  EACCES: 'its socket may not be opened: check the rights of the folder of the parameter host',
  ERR_BORINGSSL:
    'TLS could not begin: check that sslrootcert, sslcert and sslkey name files of certificates and a key (PEM)',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is of another host: check the address',
  ECONNREFUSED: 'nothing listens there: check that PostgreSQL runs, and its address',
  ENOTFOUND: 'its name is unknown: check the address',
  CONNECTION_CLOSED:
    'the connection was closed: try again; check the network, and that the server speaks TLS if it must',
  CONNECT_TIMEOUT: 'it did not answer in time: check that it runs, the network and the address',
  [NO_ANSWER]: 'it does not answer: check that it runs, its load and its disk, and the network',
};

export interface HostFailure {
  readonly host: PostgresHost;
  readonly error: Error;
}

/** `failures`: one for each host. The message is what all hosts said if they agree, otherwise what each said. */
export function noHost(failures: readonly HostFailure[]): Error {
  const [first] = failures;
  if (first !== undefined && failures.every(({ error }) => codeOf(error) === codeOf(first.error))) {
    return first.error;
  }
  const told = failures.map(({ host: { host, port }, error }) => {
    return `${formatAuthority(host, port)}: ${HINTS[codeOf(error) ?? ''] ?? plainMessage(error)}`;
  });
  return Object.assign(new Error(`no host of it takes writes (${told.join('; ')})`), { code: NO_HOST });
}

export function isLost(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && (LOST_CODES.has(code) || code.startsWith('08') || /^E[A-Z]{3,}$/.test(code));
}

/** The error of what waits for a server that has said nothing for `ms`. */
export const unanswered = (ms: number): Error =>
  Object.assign(new Error(`no answer for ${(ms / 1000).toFixed(1)} s`), { code: NO_ANSWER });

/** Whether a pooler in between has given the connection a session of others. */
export const isPooled = (error: unknown): boolean => POOLED_CODES.has(codeOf(error) ?? '');

export const unusableFile = (message: string): Error =>
  Object.assign(new Error(message), { code: UNUSABLE_FILE });

export const connectTimedOut = (): Error =>
  Object.assign(new Error('PostgreSQL did not answer in time'), { code: 'CONNECT_TIMEOUT' });

export const isTimeout = (error: unknown): boolean => codeOf(error) === 'CONNECT_TIMEOUT';

/** Whether another connection may do what this one could not. A server that hangs would only make the caller wait twice. */
export const isLostAlone = (error: unknown): boolean => isLost(error) && codeOf(error) !== NO_ANSWER;

/** Whether a transaction that failed with `error` has changed nothing and may be run again. */
export function isRepeatable(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && REPEATABLE_CODES.has(code) && !isWriteOnceBroken(error);
}

export const isDeadlock = (error: unknown): boolean => codeOf(error) === DEADLOCK;

/** Rows that another has just made are found by the next attempt. Content that exists already means a key was used twice. */
function isWriteOnceBroken(error: unknown): boolean {
  return codeOf(error) === '23505' && (error as { constraint?: unknown }).constraint === 'contents_pkey';
}

/** The error for callers: a broken rule, or a failure that undid nothing that was acknowledged. */
export function storageError(error: unknown, doing: string, { isUndecided = false } = {}): Error {
  // An ApiError refuses the caller, as when its share is used up: nothing is wrong with the store.
  const isSaid =
    error instanceof StoreUnavailable || error instanceof EngineRefused || error instanceof ApiError;
  if (isSaid || error instanceof InvariantViolation) return error;
  if (isWriteOnceBroken(error)) return new Error('a generation already has content: keys are write-once');
  const code = codeOf(error) ?? 'unknown';
  const detail = plainMessage(error);
  if (code === CHECK_VIOLATED) return new CounterBroken(detail);
  if (code === GUARD_FAILED) {
    return new InvariantViolation(`broken invariant while ${doing} (${code}): ${detail}`);
  }
  const hint =
    code === NO_HOST || code === UNUSABLE_FILE
      ? detail
      : (HINTS[code] ?? hintOfRights(code, detail) ?? 'try again; see the cause if it lasts');
  const cause = Object.assign(new Error(detail), { code });
  const isDamage = DAMAGE_CODES.has(code);
  return new StoreUnavailable(`PostgreSQL: ${doing} failed (${code}): ${hint}`, {
    cause,
    isDamage,
    isIndex: code === 'XX002',
    isUndecided,
  });
}

/** Resolves as `work` does. An error of PostgreSQL or of the network becomes a StoreUnavailable, in which `doing` says what failed. */
export async function guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storageError(error, doing);
  }
}

const NO_RIGHT = '42501';
/** No schema of the search path may even be used, so PostgreSQL knows none to make tables in. */
const NO_SCHEMA = '3F000';
/** As in `permission denied for schema public` */
const DENIED_SCHEMA = /for schema "?([^\s"]+)/;

/** Since PostgreSQL 15 only its owner may create tables in the schema `public`. Rights on the database do not change that. */
export function adviseOnSchema(schema: string): string {
  return `let its owner run GRANT USAGE, CREATE ON SCHEMA ${schema} TO that role, or make a database of its own: CREATE DATABASE holdfast OWNER that role`;
}

function hintOfRights(code: string, detail: string): string | undefined {
  if (code !== NO_RIGHT && code !== NO_SCHEMA) return undefined;
  const schema = code === NO_SCHEMA ? 'public' : DENIED_SCHEMA.exec(detail)?.[1];
  if (schema !== undefined)
    return `the role may not make tables in the schema ${schema}: ${adviseOnSchema(schema)}`;
  return `the role may not do this (${detail}): connect as the role that owns Holdfast's tables, or let that one run REASSIGN OWNED BY itself TO this role`;
}

/** The message of the server or system, cut to a line of bounded length. */
function plainMessage(error: unknown): string {
  const text = error instanceof Error ? error.message : 'no message';
  return text.slice(0, 500);
}
