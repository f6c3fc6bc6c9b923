/** `/livez` and `/readyz`, in the format of Kubernetes: short for probes, one line per check with `?verbose`. */
import { type Check, type CheckedResult, isReady, lookAll } from './readiness.ts';

export const LIVE_PATH = '/livez';
export const READY_PATH = '/readyz';

const HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
const MARKS = { ok: '+', warn: '!', fail: '-' } as const;

/** This process answers: a restart could not improve anything else. */
export function liveAnswer(): Response {
  return new Response('ok', { headers: HEADERS });
}

/** `path`: `READY_PATH`, or below it the name of one check. `mayKnow`: whether the caller may see reasons. */
export function readyAnswer(checks: readonly Check[], url: URL, mayKnow: boolean): Response {
  const name = url.pathname.slice(READY_PATH.length + 1);
  if (name !== '') return oneAnswer(checks, name, mayKnow);
  const excluded = url.searchParams.getAll('exclude').flatMap((names) => names.split(','));
  const unknown = excluded.find((each) => !checks.some((check) => check.name === each));
  // A mistyped name must show when the probe is set up, not when the check first fails.
  if (unknown !== undefined) return unknownCheck(checks, 400, `${unknown} cannot be excluded: `);
  const results = lookAll(checks, new Set(excluded));
  const ready = isReady(results);
  const isVerbose = url.searchParams.has('verbose');
  const lines = [
    ...results.map((each) => lineOf(each, mayKnow)),
    ...excluded.map((each) => `[+]${each} excluded: ok`),
    `readyz check ${ready ? 'passed' : 'failed'}`,
  ];
  return answer(ready, ready && !isVerbose ? 'ok' : `${lines.join('\n')}\n`);
}

function oneAnswer(checks: readonly Check[], name: string, mayKnow: boolean): Response {
  const check = checks.find((each) => each.name === name);
  if (check === undefined) return unknownCheck(checks, 404, '');
  const result = { name, result: check.look() };
  const ready = isReady([result]);
  return answer(ready, result.result.status === 'ok' ? 'ok' : `${lineOf(result, mayKnow)}\n`);
}

function unknownCheck(checks: readonly Check[], status: number, what: string): Response {
  const names = checks.map((each) => each.name).join(', ');
  return new Response(`${what}there is no such check; there are ${names}\n`, { status, headers: HEADERS });
}

function answer(ready: boolean, body: string): Response {
  return new Response(body, { status: ready ? 200 : 503, headers: HEADERS });
}

function lineOf({ name, result }: CheckedResult, mayKnow: boolean): string {
  const head = `[${MARKS[result.status]}]${name}`;
  if (result.status === 'ok') return `${head} ok`;
  const word = result.status === 'warn' ? 'warning' : 'failed';
  return `${head} ${word}: ${mayKnow ? result.message : 'reason withheld'}`;
}
