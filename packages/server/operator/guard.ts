/** Access to the operator listener. On loopback, pages of other origins are refused: they could reach what needs no token there. */

import { isLoopbackHost } from '../engine/address.ts';
import type { GuessThrottle } from './guess-throttle.ts';
import type { OperatorTokens } from './operator-tokens.ts';
import { OperatorError } from './problem.ts';
import type { Operator } from './rights.ts';
import type { ConsoleSignIn } from './sign-in.ts';

const BRACKETS = /^\[(.*)\]$/;
const PORT = /:[0-9]{1,5}$/;
const BEARER = /^Bearer +([\x21-\x7e]+)$/i;

/** @throws OperatorError FORBIDDEN for requests that only a browser sends for a page of another origin */
export function assertFromHere(request: Request): void {
  const host = request.headers.get('host') ?? '';
  if (!isLoopbackHost(nameOf(host))) {
    throw new OperatorError(
      'FORBIDDEN',
      'the Host of the request is no loopback address: a listener on loopback answers localhost, 127.0.0.1 and [::1] alone, so let a proxy send one of these',
    );
  }
  const origin = request.headers.get('origin');
  if (origin !== null && origin !== `http://${host}`) {
    throw new OperatorError('FORBIDDEN', 'pages of another origin may not use the listener for operators');
  }
}

function nameOf(authority: string): string {
  return authority.replace(PORT, '').replace(BRACKETS, '$1');
}

export interface Gatekeepers {
  readonly tokens: OperatorTokens;
  readonly signIn: ConsoleSignIn | undefined;
  readonly throttle: GuessThrottle;
}

/** Resolves with the sender of the request. Rejects with OperatorError (UNAUTHORIZED, TOO_MANY_GUESSES). */
export async function identify(
  { tokens, signIn, throttle }: Gatekeepers,
  request: Request,
  peer: string | undefined,
): Promise<Operator> {
  const given = findBearer(request);
  if (given === undefined) throw new OperatorError('UNAUTHORIZED', 'the operator token is missing');
  const session = signIn?.findOperator(given);
  if (session !== undefined) return session;
  const verdict = await tokens.judge(given);
  if (verdict.kind === 'known') return verdict.operator;
  if (verdict.kind === 'expired') {
    throw new OperatorError('UNAUTHORIZED', `the operator token ${JSON.stringify(verdict.name)} has expired`);
  }
  await throttle.slow(peer ?? '');
  throw new OperatorError('UNAUTHORIZED', 'the operator token is wrong');
}

/** The sender of the request if its token is valid; never delayed. */
export async function findIdentity(
  { tokens, signIn }: Gatekeepers,
  request: Request,
): Promise<Operator | undefined> {
  const given = findBearer(request);
  if (given === undefined) return undefined;
  const verdict = await tokens.judge(given);
  return signIn?.findOperator(given) ?? (verdict.kind === 'known' ? verdict.operator : undefined);
}

function findBearer(request: Request): string | undefined {
  return BEARER.exec(request.headers.get('authorization') ?? '')?.[1];
}
