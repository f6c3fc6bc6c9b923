/** Calls of the operator API on this page's own server. The token, if the listener wants one, lives in this module alone. */
import { signal } from '@preact/signals';
import { OperatorError } from '../parts/describe-error.ts';
import { keep, readKept } from '../parts/kept.ts';

const API_PATH = '/operator/v1/';
const TIMEOUT_MS = 30_000;

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

/** `onProgress` is called with the progress of long work. */
export async function change<T>(
  path: string,
  input: Readonly<Record<string, unknown>>,
  onProgress?: (progress: string) => void,
): Promise<T> {
  const init = {
    method: 'POST',
    body: JSON.stringify(input),
    headers: {
      'content-type': 'application/json',
      ...(onProgress === undefined ? {} : { accept: 'application/jsonl, application/json' }),
    },
  };
  // Checks, collections and backups take as long as they take.
  const answer = await send(`${API_PATH}${path}`, init, AbortSignal.timeout(60 * 60_000));
  const isLines = answer.headers.get('content-type')?.startsWith('application/jsonl') === true;
  return onProgress !== undefined && isLines ? readLines<T>(answer, onProgress) : answer.json();
}

interface AnswerLine<T> {
  readonly progress?: string;
  readonly output?: T;
  readonly problem?: { readonly status: number; readonly detail: string };
}

/** Lines with `progress`, and a last one with the `output` or the `problem`; empty ones keep the connection. */
async function readLines<T>(answer: Response, onProgress: (progress: string) => void): Promise<T> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done = true, value = '' } = (await reader?.read()) ?? {};
    const lines = `${text}${value}`.split('\n');
    text = lines.pop() ?? '';
    for (const each of lines.filter((line) => line !== '')) {
      const { progress, output, problem } = JSON.parse(each) as AnswerLine<T>;
      if (output !== undefined) return output;
      if (problem !== undefined) throw new OperatorError(problem.status, problem.detail);
      if (progress !== undefined) onProgress(progress);
    }
    if (done) throw new OperatorError(0, 'The server ended before it was done. Try again.');
  }
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
    // The answer is not from an operator API; the status is all there is.
  }
  return `The server answered ${answer.status}.`;
}
