/** Shared by all gateways: address, password, end. While the server cannot be reached, requests get 503, and the gateway goes on. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CasError, CatalogError, EditError } from '@holdfast/client';
import { findDecoded, type ListenAddress, parseListenAddress } from '@holdfast/protocol';
import { CliError, UsageError } from '../cli-error.ts';
import { readSecretText } from '../files.ts';
import { printFailure, printLine, printNote } from '../terminal/output.ts';
import { SILENT_MS_MAX, serverWatch } from './server-watch.ts';

export interface DoorFlags {
  readonly listen: string;
  readonly user?: string;
  readonly passwordFile?: string;
  readonly open?: true;
}

/** An answer of a gateway that is no success. */
export class DoorError extends Error {
  override readonly name = 'DoorError';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

/** `signal` is aborted when the request was answered without it. */
export type DoorHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
) => Promise<void>;

export interface DoorOptions {
  /** the password alone, as a bearer, opens too */
  readonly takesBearer?: boolean;
  /** The body of an answer that is no success; text when left out. */
  readonly formatError?: (request: IncomingMessage, message: string) => ErrorBody | undefined;
  /** after the last answer */
  readonly onEnd?: () => Promise<void>;
}

interface ErrorBody {
  readonly type: string;
  readonly text: string;
}

const USER_DEFAULT = 'holdfast';
const RETRY_AFTER_MS = 2_000;
/** Whatever the server asks for: a client of a door, such as git-lfs, waits as long as it is told. */
const RETRY_AFTER_MS_MAX = 5 * 60_000;
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/;

/** Serves until SIGTERM or Ctrl-C. Throws CliError when the address is taken, UsageError for flags that exclude each other. */
export async function runDoor(
  word: string,
  flags: DoorFlags,
  handle: DoorHandler,
  options: DoorOptions = {},
): Promise<void> {
  const address = parseListenAddress(flags.listen);
  if (address === undefined)
    throw new UsageError(
      `--listen ${JSON.stringify(flags.listen)} is no address: write HOST:PORT, such as 127.0.0.1:8430`,
    );
  const password = await findPassword(flags, address);
  const user = flags.user ?? USER_DEFAULT;
  if (!/^[^:\p{Cc}]+$/u.test(user)) throw new UsageError('--user has no colon and no control characters');
  // An address that is too long gets an answer of its own.
  const server = createServer({ maxHeaderSize: 256 * 1024 }, (request, response) => {
    const isRight =
      password === undefined ||
      isAllowed(request, user, password.text) ||
      (options.takesBearer === true && isBearer(request, password.text));
    void answer(request, response, isRight ? sameOrigin : refuse, options);
  });
  const sameOrigin: DoorHandler = async (request, response, signal) => {
    requireOrigin(request);
    const silence = Promise.withResolvers<never>();
    waiting.add(silence.reject);
    try {
      await Promise.race([handle(request, response, signal), silence.promise]);
    } finally {
      waiting.delete(silence.reject);
    }
  };
  await listen(server, address);
  setInterval(giveUpIfSilent, 1_000).unref();
  const { port } = server.address() as AddressInfo;
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  printLine(`holdfast ${word} on http://${host}:${port}/`);
  if (password?.isMade) {
    printLine(`user: ${user}`);
    printLine(`password: ${password.text}`);
  }
  if (password === undefined) printNote('there is no password: anyone on this machine may read and write');
  await untilSignal();
  await drained(closed(server).then(() => options.onEnd?.()));
  server.closeAllConnections();
}

interface Password {
  readonly text: string;
  readonly isMade: boolean;
}

async function findPassword(flags: DoorFlags, { host }: ListenAddress): Promise<Password | undefined> {
  const { open, user, passwordFile } = flags;
  if (open && (user !== undefined || passwordFile !== undefined)) {
    throw new UsageError('--open has no password: leave --user and --password-file out');
  }
  if (open && !LOOPBACK.test(host))
    throw new UsageError('--open is for an address of this machine only, such as 127.0.0.1');
  if (open) return undefined;
  if (passwordFile === undefined) return { text: randomBytes(24).toString('base64url'), isMade: true };
  const text = (await readSecretText(passwordFile, 'the password')).trimEnd();
  if (text === '') throw new CliError(`${passwordFile} is empty; it holds the password alone`);
  return { text, isMade: false };
}

function isAllowed({ headers }: IncomingMessage, user: string, password: string): boolean {
  const given = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
  return isEqual(Buffer.from(given, 'base64'), `${user}:${password}`);
}

function isBearer({ headers }: IncomingMessage, password: string): boolean {
  return isEqual(Buffer.from(/^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? ''), password);
}

function isEqual(given: Buffer, text: string): boolean {
  const wanted = Buffer.from(text);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

async function refuse(): Promise<void> {
  throw new DoorError(401, 'the password is missing or wrong', {
    'www-authenticate': 'Basic realm="holdfast", charset="UTF-8"',
  });
}

/** Made once, because each has its stack. */
const OVER = new Error('the request was answered');
const GONE: ReadonlySet<string> = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET']);

let active = 0;
let onIdle = (): void => undefined;

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handle: DoorHandler,
  { formatError }: DoorOptions,
): Promise<void> {
  active += 1;
  const over = new AbortController();
  try {
    await handle(request, response, over.signal);
  } catch (error) {
    request.resume();
    // A client that is gone is told nothing. One that has a part of the answer hears of it by the end of the connection.
    if (GONE.has((error as NodeJS.ErrnoException).code ?? '')) return void response.destroy();
    const { status, message, headers } = describe(error);
    if (response.headersSent) return void response.destroy();
    const plain = { type: 'text/plain; charset=utf-8', text: `${message}\n` };
    const { type, text } = formatError?.(request, message) ?? plain;
    response.writeHead(status, { 'content-type': type, ...headers });
    response.end(request.method === 'HEAD' ? undefined : text);
  } finally {
    over.abort(OVER);
    active -= 1;
    if (active === 0) onIdle();
  }
}

/** Throws DoorError 403. */
function requireOrigin({ headers: { origin, host } }: IncomingMessage): void {
  if (origin === undefined || origin === `http://${host}` || origin === `https://${host}`) return;
  throw new DoorError(403, 'this page is of another origin');
}

/** The ends of the requests that are being answered. */
const waiting = new Set<(error: DoorError) => void>();

function giveUpIfSilent(): void {
  if (waiting.size === 0 || serverWatch.silentMs() <= SILENT_MS_MAX) return;
  const error = away('the server answers nothing');
  for (const give of waiting) give(error);
}

function away(
  reason: string,
  retryAfterMs = RETRY_AFTER_MS,
  message = 'the server cannot be reached, or refuses',
): DoorError {
  tellAway(reason, 'requests get 503 meanwhile');
  return later(503, retryAfterMs, message);
}

function later(status: 429 | 503, retryAfterMs = RETRY_AFTER_MS, message: string): DoorError {
  const seconds = Math.max(1, Math.ceil(Math.min(retryAfterMs, RETRY_AFTER_MS_MAX) / 1_000));
  return new DoorError(status, message, { 'retry-after': `${seconds}` });
}

const EDIT_STATUSES: Readonly<Record<EditError['code'], number>> = {
  NOT_FOUND: 404,
  EXISTS: 409,
  NO_PARENT: 409,
  INTO_ITSELF: 403,
  INVALID_PATH: 400,
};

function describe(error: unknown): DoorError {
  if (error instanceof DoorError) return error;
  if (error instanceof EditError) return new DoorError(EDIT_STATUSES[error.code], error.message);
  if (error instanceof CatalogError)
    return new DoorError(error.code === 'NOT_FOUND' ? 404 : 409, error.message);
  if (error instanceof CasError) {
    const isQuota =
      error.code === ('QUOTA_EXCEEDED' as string) ||
      (error.status === 429 && error.retryAfterMs === undefined);
    if (isQuota) return new DoorError(507, error.reason);
    if (error.status === 429) return later(429, error.retryAfterMs, error.reason);
    // What the server itself says of its state, such as a full disk, is worth telling.
    return away(error.reason, error.retryAfterMs, error.status === 503 ? error.reason : undefined);
  }
  printFailure(error instanceof Error ? error.message : String(error));
  return new DoorError(500, 'the gateway failed');
}

let told = { text: '', at: 0 };

/** Once, not for every request. */
export function tellAway(reason: string, meanwhile: string): void {
  const text = `${reason}; ${meanwhile}`;
  // A failure that comes back after a minute is told again.
  const isTold = text === told.text && Date.now() - told.at < 60_000;
  told = { text, at: Date.now() };
  if (!isTold) printFailure(text);
}

async function listen(server: Server, { host, port }: ListenAddress): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE';
      reject(
        new CliError(
          isTaken
            ? `${host}:${port} is taken; choose another --listen`
            : `cannot listen on ${host}:${port}: ${error.message}`,
        ),
      );
    });
    server.listen(port, host, resolve);
  });
}

export function untilSignal(...more: readonly 'SIGHUP'[]): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', ...more] as const) process.once(signal, () => resolve());
  });
}

/** Waits for the work under way, for a bounded time. */
export async function drained(done: Promise<void>): Promise<void> {
  // After a signal, requests that are being received have 10 s to finish.
  const late = new Promise<void>((resolve) => setTimeout(resolve, 10_000).unref());
  await Promise.race([done, late]);
}

/** Settles when the last request is answered. Connections that wait are closed. */
function closed(server: Server): Promise<void> {
  server.close();
  return new Promise((resolve) => {
    onIdle = resolve;
    if (active === 0) resolve();
  });
}

/** Throws DoorError 414. */
export function requireShort(target: string): void {
  if (target.length > 16 * 1024) throw new DoorError(414, 'the address is too long');
}

/** `refusal`: of a part that nothing here can be named by. Throws DoorError 400. */
export function decodePart(part: string, refusal: string): string {
  const text = findDecoded(part);
  if (text === undefined) throw new DoorError(400, 'the address is no UTF-8');
  if (text === '' || text === '.' || text === '..' || text.includes('/') || !canShow(text))
    throw new DoorError(400, refusal);
  return text;
}

/** A name with control characters cannot be asked for, so it is not listed. */
export function canShow(name: string): boolean {
  return !/\p{Cc}/u.test(name);
}
