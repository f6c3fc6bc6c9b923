/** The operator API over requests: finds the operation, parses its input strictly, runs it and writes its answer. */
import {
  isJsonObject,
  JSON_BODY_BYTES_MAX,
  type JsonValue,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { answerInLines, wantsLines } from './answer-lines.ts';
import { audited, noteForbidden } from './audited.ts';
import { API_PATH, type Fields, parseFields } from './fields.ts';
import { buildOperatorOpenApi } from './openapi.ts';
import type { Operation, OperatorContext } from './operation.ts';
import { OPERATION_NAMES, OPERATIONS } from './operations.ts';
import { isUnexpected, OperatorError, type Problem, problemOf } from './problem.ts';
import { mayCall, type RequestCaller } from './rights.ts';

const JSON_MEDIA_TYPE = /^application\/json\s*(?:;|$)/i;
const DOCUMENT_PATH = `${API_PATH}openapi.json`;
const NO_STORE = { 'cache-control': 'no-store' };

const BY_PATH: ReadonlyMap<string, readonly Operation[]> = Map.groupBy(
  OPERATION_NAMES.map((name) => OPERATIONS[name] as unknown as Operation),
  ({ path }) => `${API_PATH}${path}`,
);

export function isOpenPath(path: string): boolean {
  return BY_PATH.get(path)?.every(({ isOpen }) => isOpen === true) ?? false;
}

export async function answerApi(
  context: OperatorContext,
  request: Request,
  url: URL,
  caller: RequestCaller,
): Promise<Response> {
  if (url.pathname === DOCUMENT_PATH && isRead(request)) {
    return Response.json(buildOperatorOpenApi(), { headers: NO_STORE });
  }
  try {
    const found = findOperation(request.method, url.pathname);
    assertMayCall(context, caller, found);
    if (context.live?.isDraining()) {
      throw new OperatorError('DRAINING', 'the server is ending and begins nothing any more: try again');
    }
    const input = parseFields(found.input, await readInput(found, request, url));
    const work = (report: (progress: string) => void): Promise<unknown> =>
      audited(context.live?.audit, { operation: found, input, caller }, () =>
        found.run({ ...context, signal: request.signal, report }, input),
      ).catch((error: unknown) => {
        noteUnexpected(context, url.pathname, caller, error);
        throw error;
      });
    // A streamed answer begins before its status is known. An operation without a token needs the status.
    // Work for a HEAD would have no end: nobody reads its lines.
    if (request.method !== 'HEAD' && found.isOpen !== true && wantsLines(request))
      return answerInLines(work, NO_STORE);
    return Response.json(await work(() => undefined), { headers: NO_STORE });
  } catch (error) {
    return problemAnswer(problemOf(error), caller, allowOf(url.pathname, error));
  }
}

/** @throws OperatorError FORBIDDEN */
function assertMayCall({ live }: OperatorContext, caller: RequestCaller, called: Operation): void {
  const { operator } = caller;
  const { method, path, right, isOpen } = called;
  if (isOpen === true || (operator !== undefined && mayCall(operator, called))) return;
  noteForbidden(live?.audit, called, caller);
  throw new OperatorError(
    'FORBIDDEN',
    `the token ${JSON.stringify(operator?.name)} may not ${method} ${path}: that needs the right ${right} in the operators' token file`,
  );
}

export function noteUnexpected(
  { log }: Pick<OperatorContext, 'log'>,
  path: string,
  { requestId }: Pick<RequestCaller, 'requestId'>,
  error: unknown,
): void {
  if (isUnexpected(error)) log.error({ path, requestId, err: error }, 'an operation failed unexpectedly');
}

export function problemAnswer(
  problem: Problem,
  { requestId }: Pick<RequestCaller, 'requestId'>,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(`${JSON.stringify(problem)}\n`, {
    status: problem.status,
    headers: {
      'content-type': 'application/problem+json',
      'x-request-id': requestId,
      ...NO_STORE,
      ...headers,
    },
  });
}

const isRead = ({ method }: Request): boolean => method === 'GET' || method === 'HEAD';

function findOperation(method: string, path: string): Operation<Fields> {
  const there = BY_PATH.get(path);
  if (there === undefined) {
    throw new OperatorError('NOT_FOUND', `there is no operation at ${path}; see ${DOCUMENT_PATH}`);
  }
  // A HEAD is a GET; the runtime omits the body.
  const wanted = method === 'HEAD' ? 'GET' : method;
  const found = there.find((each) => each.method === wanted);
  if (found !== undefined) return found;
  throw new OperatorError('METHOD_NOT_ALLOWED', `${path} takes ${methodsOf(there).join(', ')}`);
}

function allowOf(path: string, error: unknown): Record<string, string> {
  if (!(error instanceof OperatorError) || error.code !== 'METHOD_NOT_ALLOWED') return {};
  return { allow: methodsOf(BY_PATH.get(path) ?? []).join(', ') };
}

function methodsOf(there: readonly Operation[]): readonly string[] {
  return there.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
}

async function readInput(
  { method, input }: Operation,
  request: Request,
  url: URL,
): Promise<ReadonlyMap<string, unknown>> {
  if (method === 'GET') return readQuery(input, url.searchParams);
  if (url.search !== '') throw new OperatorError('INVALID_INPUT', 'a POST takes its input in the body alone');
  return readBody(request);
}

function readQuery(fields: Fields, query: URLSearchParams): ReadonlyMap<string, unknown> {
  const given = new Map<string, unknown>();
  for (const [name, value] of query) {
    if (given.has(name)) throw new OperatorError('INVALID_INPUT', `the parameter ${name} is given twice`);
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    given.set(name, field === undefined ? value : field.fromText(value));
  }
  return given;
}

/** An HTML form of another site cannot send this media type: only a program or a page of this origin can. */
async function readBody(request: Request): Promise<ReadonlyMap<string, unknown>> {
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) {
    throw new OperatorError(
      'UNSUPPORTED_MEDIA_TYPE',
      'send the input as a JSON object with Content-Type: application/json',
    );
  }
  const value = parseBody(await readBytes(request));
  if (!isJsonObject(value)) throw new OperatorError('INVALID_INPUT', 'the body must be a JSON object');
  return new Map([...value].map(([name, each]) => [name, toPlain(each)]));
}

function parseBody(bytes: Uint8Array): JsonValue {
  try {
    return parseStrictJson(bytes);
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw new OperatorError('INVALID_INPUT', `the body is not JSON: ${error.message}`);
  }
}

async function readBytes(request: Request): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of request.body ?? []) {
    length += piece.length;
    if (length > JSON_BODY_BYTES_MAX) {
      throw new OperatorError('PAYLOAD_TOO_LARGE', `the body has more than ${JSON_BODY_BYTES_MAX} bytes`);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Objects without a prototype, so that no member name is special. */
function toPlain(value: JsonValue): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (!isJsonObject(value)) return value;
  const plain = Object.create(null) as Record<string, unknown>;
  for (const [name, each] of value) plain[name] = toPlain(each);
  return plain;
}
