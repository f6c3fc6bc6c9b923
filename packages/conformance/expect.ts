/** Assertions that say what the rule asks for and what came instead. */
import { isDeepStrictEqual } from 'node:util';
import type { Answer } from './answer.ts';
import { redact, sayBytes } from './answer.ts';
import { RuleBroken } from './rule-broken.ts';

function show(value: unknown): string {
  if (value instanceof Uint8Array) return sayBytes(value.length);
  const text = typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value));
  const safe = redact(text);
  return safe.length <= 300 ? safe : `${safe.slice(0, 300)}…`;
}

export function expectThat(
  condition: boolean,
  expected: string,
  actual: unknown,
  answer?: Answer,
): asserts condition {
  if (!condition)
    throw new RuleBroken(expected, typeof actual === 'string' ? redact(actual) : show(actual), answer);
}

export function expectEqual(actual: unknown, expected: unknown, what: string, answer?: Answer): void {
  expectThat(isDeepStrictEqual(actual, expected), `${what} = ${show(expected)}`, actual, answer);
}

export function expectBytes(actual: Uint8Array, expected: Uint8Array, what: string, answer?: Answer): void {
  if (Buffer.compare(actual, expected) === 0) return;
  const at = expected.findIndex((byte, index) => actual[index] !== byte);
  const difference = at === -1 ? 'longer' : `first difference at byte ${at}`;
  throw new RuleBroken(
    `${what}: exactly ${sayBytes(expected.length)}`,
    `${sayBytes(actual.length)}, ${difference}`,
    answer,
  );
}

/** The answer has this status, or one of several. */
export function expectStatus(answer: Answer, status: number | readonly number[], why = ''): void {
  const statuses = [status].flat();
  const suffix = why === '' ? '' : ` (${why})`;
  const expected = `${answer.request} → ${statuses.join(' or ')}${suffix}`;
  expectThat(statuses.includes(answer.status), expected, `${answer.status}`, answer);
}

export function expectHeader(answer: Answer, name: string, expected: string): void {
  expectThat(
    answer.headers.get(name) === expected,
    `header ${name}: ${expected}`,
    answer.headers.get(name) ?? '(absent)',
    answer,
  );
}

export function expectJsonType(answer: Answer): void {
  const type = answer.headers.get('content-type') ?? '';
  expectThat(
    /^application\/json\s*(;|$)/i.test(type),
    'content-type application/json',
    type || '(absent)',
    answer,
  );
}

export function readJson(answer: Answer): unknown {
  expectJsonType(answer);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(answer.bytes));
  } catch {
    throw new RuleBroken('a JSON body', `${sayBytes(answer.bytes.length)} that are no JSON`, answer);
  }
}

/** The answer is this error, in exactly the envelope of docs/api.md, Errors. Any of several codes may be allowed. */
export function expectError(
  answer: Answer,
  status: number,
  code: string | readonly string[],
  why = '',
): string {
  const codes = typeof code === 'string' ? [code] : code;
  const expected = `${answer.request} → ${status} ${codes.join(' or ')}${why === '' ? '' : ` (${why})`}`;
  if (answer.status !== status) throw new RuleBroken(expected, `${answer.status} ${codeOf(answer)}`, answer);
  const body = expectKeys(readJson(answer), ['error'], ['message'], 'the error envelope', answer);
  expectThat(
    typeof body.error === 'string' && codes.includes(body.error),
    expected,
    `${status} ${show(body.error)}`,
    answer,
  );
  const message = body.message ?? '';
  expectThat(typeof message === 'string', 'message is a string when present', message, answer);
  return message;
}

export function expectInvalid(answer: Answer, why = ''): string {
  return expectError(answer, 400, 'INVALID_REQUEST', why);
}

export function expectForbidden(answer: Answer, why = ''): string {
  return expectError(answer, 403, 'FORBIDDEN', why);
}

export function expectNotFound(answer: Answer, why = ''): string {
  return expectError(answer, 404, 'NOT_FOUND', why);
}

export function expectConflict(answer: Answer, why = ''): string {
  return expectError(answer, 409, 'CONFLICT', why);
}

function codeOf(answer: Answer): string {
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(answer.bytes));
    return isRecord(body) && typeof body.error === 'string' ? body.error : '';
  } catch {
    return '';
  }
}

export type JsonRecord = Readonly<Record<string, unknown>>;

function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object with all of `required` and nothing outside `required` and `optional`. */
export function expectKeys(
  value: unknown,
  required: readonly string[],
  optional: readonly string[],
  what: string,
  answer?: Answer,
): JsonRecord {
  expectThat(isRecord(value), `${what}: an object`, value, answer);
  for (const key of required)
    expectThat(key in value, `${what} has the field ${key}`, Object.keys(value), answer);
  for (const key of Object.keys(value)) {
    expectThat(
      required.includes(key) || optional.includes(key),
      `${what} has no field that docs/api.md does not name`,
      key,
      answer,
    );
  }
  return value;
}

export function expectInteger(value: unknown, what: string, minimum: number, answer?: Answer): number {
  expectThat(
    Number.isSafeInteger(value) && (value as number) >= minimum,
    `${what}: an integer >= ${minimum}`,
    value,
    answer,
  );
  return value as number;
}

export function expectString(value: unknown, what: string, answer?: Answer): string {
  expectThat(typeof value === 'string' && value !== '', `${what}: a non-empty string`, value, answer);
  return value;
}

export function expectHash(value: unknown, what: string, answer?: Answer): string {
  const text = expectString(value, what, answer);
  expectThat(/^[0-9a-f]{64}$/.test(text), `${what}: 64 lowercase hex`, text, answer);
  return text;
}

/**
 * A PUT that came too late. A store that takes the PUT itself answers in its own words, and may tell two writers at once to
 * try again.
 */
export function expectAlreadyThere(uploadKind: 'embedded' | 'direct', answer: Answer, what: string): void {
  if (uploadKind === 'embedded') expectError(answer, 412, 'CONFLICT', what);
  else expectThat([409, 412].includes(answer.status), `${what}: 409 or 412`, answer.status, answer);
}
