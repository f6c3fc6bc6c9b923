/** Calls of the operator API on this page's own server. The token, if the listener wants one, lives in this module alone. */
import { signal } from '@preact/signals';
import { OperatorError } from '../parts/describe-error.ts';
import { keep, readKept } from '../parts/kept.ts';

const API_PATH = '/operator/v1/';
const TIMEOUT_MS = 30_000;
/** Checks, collections and backups take as long as they take. */
const LONG_TIMEOUT_MS = 60 * 60_000;

const KEPT_NAME = 'holdfast-operator-token';

let operatorToken = readKept<string>(KEPT_NAME);
/** `refused`: a token is asked for */
export const operatorAccess = signal<'token' | 'refused'>(operatorToken === undefined ? 'refused' : 'token');

export function keepOperatorToken(token: string | undefined): void {
  operatorToken = token;
  keep(KEPT_NAME, token);
  operatorAccess.value = token === undefined ? 'refused' : 'token';
}

/** Keeps the token if the server takes it. Throws OperatorError. */
export async function signInAsOperator(token: string): Promise<void> {
  const init = { headers: { authorization: `Bearer ${token}` } };
  const answer = await fetchHere(`${API_PATH}status`, init, AbortSignal.timeout(TIMEOUT_MS));
  if (!answer.ok) throw new OperatorError(answer.status, await readProblem(answer));
  keepOperatorToken(token);
}

type Query = Readonly<Record<string, string | number | undefined>>;

export async function read<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  const search = new URLSearchParams(given).toString();
  const url = `${API_PATH}${path}${search === '' ? '' : `?${search}`}`;
  return (await send(url, {}, AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]))).json();
}

export async function change<T>(path: string, input: Readonly<Record<string, unknown>>): Promise<T> {
  const init = {
    method: 'POST',
    body: JSON.stringify(input),
    headers: { 'content-type': 'application/json' },
  };
  return (await send(`${API_PATH}${path}`, init, AbortSignal.timeout(LONG_TIMEOUT_MS))).json();
}

/** A page of this listener that is no part of the operator API, such as a probe; also answers that are no success. */
export async function readText(path: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
  const answer = await fetchHere(path, {}, AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]));
  return { status: answer.status, text: await answer.text() };
}

async function send(
  url: string,
  init: { method?: string; body?: string; headers?: Record<string, string> },
  signal: AbortSignal,
): Promise<Response> {
  const answer = await fetchHere(url, init, signal);
  if (answer.ok) return answer;
  if (answer.status === 401) keepOperatorToken(undefined);
  throw new OperatorError(answer.status, await readProblem(answer));
}

async function fetchHere(
  url: string,
  init: { method?: string; body?: string; headers?: Record<string, string> },
  signal: AbortSignal,
): Promise<Response> {
  const authorization: Record<string, string> =
    operatorToken === undefined ? {} : { authorization: `Bearer ${operatorToken}` };
  try {
    return await fetch(url, {
      ...init,
      headers: { ...authorization, ...init.headers },
      signal,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'TimeoutError') {
      throw new OperatorError(0, 'The server took too long to answer. Try again.');
    }
    if (signal.aborted) throw error;
    throw new OperatorError(
      0,
      'The server does not answer. It may have ended: look at its log, and try again.',
    );
  }
}

/** RFC 9457: `detail` is for people. */
async function readProblem(answer: Response): Promise<string> {
  try {
    const { detail, title } = (await answer.json()) as {
      readonly detail?: unknown;
      readonly title?: unknown;
    };
    if (typeof detail === 'string') return detail;
    if (typeof title === 'string') return title;
  } catch {
    // What answered is no operator API; the status is all there is.
  }
  return `The server answered ${answer.status}.`;
}
