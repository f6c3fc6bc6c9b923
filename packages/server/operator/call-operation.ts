/** The client of the operator API: calls a server over its operator listener or over the channel of its data folder. */

import {
  describeProxyAnswer,
  describeProxyFailure,
  findCertificateFailure,
  type JsonSchema,
  KIB_BYTES,
  MINUTE_MS,
} from '@holdfast/protocol';
import { ServeError } from '../errors.ts';
import { AnswerRefused, parseAnswer, readText, refusePacked, Silence } from './answer-bounds.ts';
import { LINES_MEDIA_TYPE, readAnswerLines } from './answer-lines.ts';
import { findChannel } from './channel.ts';
import { API_PATH } from './fields.ts';
import type { Caller } from './operation.ts';
import { type InputOf, OPERATIONS, type OperationName, type OutputOf } from './operations.ts';
import { OperatorError, PROBLEM_STATUS, type Problem } from './problem.ts';

export type OperatorAddress =
  | {
      readonly kind: 'url';
      /** without a trailing slash */
      readonly url: string;
      readonly token: string | undefined;
    }
  | { readonly kind: 'channel'; readonly path: string };

/** No server accepted the request, so nothing was started. */
export class NoServer extends ServeError {
  override readonly name = 'NoServer';
}

/** The connection ended before the answer. Whether the operation was done is unknown. */
export class ConnectionBroken extends ServeError {
  override readonly name = 'ConnectionBroken';
}

/** A request option of the runtime that its types lack. */
interface RuntimeInit extends RequestInit {
  readonly unix?: string;
  readonly timeout: false;
  /** A few compressed bytes can expand to gigabytes, so compression is not requested and is refused. */
  readonly decompress: false;
}

const BEFORE_ANY_SERVER: ReadonlySet<string> = new Set([
  'ENOENT',
  'ECONNREFUSED',
  'ConnectionRefused',
  'FailedToOpenSocket',
  'ERR_PROXY_TUNNEL',
]);

const LINE_END = 0x0a;
/** So much of one line within the silence allowed shows that it still comes. */
const LINE_PART_BYTES = 64 * KIB_BYTES;

/** Rejects with NoServer, OperatorError or another ServeError. */
export async function callOperation<N extends OperationName>(
  address: OperatorAddress,
  name: N,
  input: InputOf<N>,
  { signal, onProgress }: Caller,
  // Lines come at least every 2 seconds. A read ends although they go on: a change may take as long as it has to.
  silenceMsMax = 2 * MINUTE_MS,
  readMsMax = 15 * MINUTE_MS,
): Promise<OutputOf<N>> {
  const { method, path, output } = OPERATIONS[name];
  const given = Object.entries(input).filter(([, value]) => value !== undefined);
  const query = method === 'GET' && given.length > 0 ? `?${new URLSearchParams(given.map(toText))}` : '';
  const isUrl = address.kind === 'url';
  const origin = isUrl ? address.url : 'http://localhost';
  const silence = new Silence(signal, silenceMsMax, method === 'GET' ? readMsMax : Number.POSITIVE_INFINITY);
  const init: RuntimeInit = {
    method,
    signal: silence.signal,
    redirect: 'manual',
    timeout: false,
    decompress: false,
    ...(address.kind === 'channel' ? { unix: address.path } : {}),
    ...(method === 'POST' ? { body: JSON.stringify(Object.fromEntries(given)) } : {}),
    headers: headersOf(method, address),
  };
  try {
    const response = await fetch(`${origin}${API_PATH}${path}${query}`, init);
    const ofProxy = isUrl ? describeProxyAnswer(origin, process.env, response) : undefined;
    if (ofProxy !== undefined) throw new NoServer(`${nameOf(address)} was not asked: ${ofProxy}`);
    refusePacked(response.headers);
    const { status, body } = await readAnswer(response, silence, onProgress);
    if (status < 300 && fitsSchema(body, output)) return body as OutputOf<N>;
    throw explainRefusal(address, status, body);
  } catch (error) {
    throw error instanceof ServeError ? error : explainFailure(address, silence.refusal ?? error);
  } finally {
    silence.end();
  }
}

function headersOf(method: string, address: OperatorAddress): Record<string, string> {
  const token = address.kind === 'url' ? address.token : undefined;
  return {
    'accept-encoding': 'identity',
    accept: `${LINES_MEDIA_TYPE}, application/json`,
    ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
}

/** `body`: undefined if it is not JSON */
async function readAnswer(
  response: Response,
  silence: Silence,
  onProgress: Caller['onProgress'],
): Promise<{ readonly status: number; readonly body: unknown }> {
  silence.heard();
  const body: AsyncIterable<Uint8Array> = response.body ?? new Blob().stream();
  if (response.headers.get('content-type') === LINES_MEDIA_TYPE) {
    const last = await readAnswerLines(heardPieces(body, silence), onProgress ?? (() => undefined));
    if ('output' in last) return { status: response.status, body: last.output };
    return { status: last.problem.status, body: last.problem };
  }
  return { status: response.status, body: parseJson(await readText(body)) };
}

async function* heardPieces(
  body: AsyncIterable<Uint8Array>,
  silence: Silence,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    // A byte now and then is not an answer; a long line on a slow connection is.
    if (piece.includes(LINE_END) || bytes >= LINE_PART_BYTES) {
      silence.heard();
      bytes = 0;
    }
    yield piece;
  }
}

/** Calls the server that holds the data folder. Rejects like `callOperation`; NoServer means that nothing was started. */
export async function callHolder<N extends OperationName>(
  dataDir: string,
  name: N,
  input: InputOf<N>,
  caller: Caller,
): Promise<OutputOf<N>> {
  const socket = findChannel(dataDir);
  if (socket === undefined) throw new NoServer(`no server holds the data folder ${dataDir}`);
  try {
    return await callOperation({ kind: 'channel', path: socket.path }, name, input, caller);
  } finally {
    socket.close();
  }
}

function toText([name, value]: [string, unknown]): [string, string] {
  return [name, String(value)];
}

function parseJson(text: string): unknown {
  try {
    return parseAnswer(text);
  } catch (error) {
    if (error instanceof AnswerRefused) throw error;
    return undefined;
  }
}

function explainFailure(address: OperatorAddress, error: unknown): Error {
  if (error instanceof AnswerRefused) {
    return new ServeError(
      `${nameOf(address)}: ${error.message}: check that this is the address of a listener for operators`,
      { cause: error },
    );
  }
  const code = (error as { code?: unknown } | null)?.code;
  const certificate = findCertificateFailure(error);
  if (certificate !== undefined) {
    const advice = certificate.isUntrusted
      ? 'name the PEM file of its authority in NODE_EXTRA_CA_CERTS'
      : 'have it renewed, or correct the address and the clock';
    const what = `the certificate of ${nameOf(address)} is not accepted (${certificate.code})`;
    return new NoServer(`${what}: ${advice}`, { cause: error });
  }
  const reason = typeof code === 'string' ? code : error instanceof Error ? error.message : String(error);
  if (typeof code === 'string' && BEFORE_ANY_SERVER.has(code)) {
    const ofProxy =
      address.kind === 'url' ? describeProxyFailure(address.url, process.env, error) : undefined;
    if (ofProxy !== undefined)
      return new NoServer(`${nameOf(address)} was not asked: ${ofProxy}`, { cause: error });
    return new NoServer(
      `no server answers ${nameOf(address)} (${reason}): check the address, and that it runs`,
      {
        cause: error,
      },
    );
  }
  return new ConnectionBroken(
    `the connection to ${nameOf(address)} broke (${reason}): whether it was done is not known, so run the command again`,
    { cause: error },
  );
}

function explainRefusal(address: OperatorAddress, status: number, body: unknown): Error {
  const problem = findProblem(body);
  if (problem === undefined) {
    return new ServeError(
      `${nameOf(address)} answered ${status}, which is no answer of a listener for operators: give the address of its second line, such as http://127.0.0.1:8421`,
    );
  }
  const { code, detail } = problem;
  if (code === 'DRAINING' && address.kind === 'channel') return new NoServer(detail);
  if (code === 'UNAUTHORIZED') {
    return new OperatorError(
      code,
      `${detail}: give --operator-token-file FILE; a server that was started without one has its token in the file operator-token of its data folder`,
    );
  }
  return new OperatorError(code, detail);
}

function nameOf(address: OperatorAddress): string {
  return address.kind === 'url' ? address.url : "the server's channel";
}

function findProblem(body: unknown): Pick<Problem, 'code' | 'detail'> | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { code, detail } = body as Partial<Problem>;
  if (code === undefined || !Object.hasOwn(PROBLEM_STATUS, code)) return undefined;
  return typeof detail === 'string' ? { code, detail } : undefined;
}

const IS_OF_TYPE: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  boolean: (value) => typeof value === 'boolean',
  integer: Number.isInteger,
  null: (value) => value === null,
  number: (value) => typeof value === 'number',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  string: (value) => typeof value === 'string',
};

/** Any program may listen at the address. Only types and required fields count: other fields may come from a later version. */
function fitsSchema(value: unknown, schema: JsonSchema): boolean {
  const { type, anyOf, required, properties, items } = schema as {
    readonly type?: string;
    readonly anyOf?: readonly JsonSchema[];
    readonly required?: readonly string[];
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly items?: JsonSchema;
  };
  if (anyOf !== undefined && !anyOf.some((each) => fitsSchema(value, each))) return false;
  if (type !== undefined && IS_OF_TYPE[type]?.(value) === false) return false;
  if (items !== undefined && Array.isArray(value)) return value.every((each) => fitsSchema(each, items));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true;
  const isWhole = required?.every((name) => Object.hasOwn(value, name)) ?? true;
  return isWhole && Object.entries(properties ?? {}).every(([name, each]) => fitsField(value, name, each));
}

function fitsField(value: object, name: string, schema: JsonSchema): boolean {
  return !Object.hasOwn(value, name) || fitsSchema((value as Record<string, unknown>)[name], schema);
}
