/**
 * Who may speak to the listener for operators. Without a token only programs of this machine may: a page of the web that a
 * browser here has open, also by a name that leads to this address, is refused.
 */

import { isLoopbackHost } from '../engine/address.ts';
import type { OperatorToken } from './operator-token.ts';
import { OperatorError } from './problem.ts';

const BRACKETS = /^\[(.*)\]$/;
const PORT = /:[0-9]{1,5}$/;
const BEARER = /^Bearer +([\x21-\x7e]+)$/i;

/** Throws OperatorError (FORBIDDEN) for what only a browser sends for a page from elsewhere. */
export function assertFromHere(request: Request): void {
  const host = request.headers.get('host') ?? '';
  if (!isLoopbackHost(nameOf(host))) {
    throw new OperatorError(
      'FORBIDDEN',
      'the Host of the request is no loopback address: without --operator-token-file only localhost, 127.0.0.1 and [::1] are answered',
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

/** Throws OperatorError (UNAUTHORIZED). */
export async function assertToken(token: OperatorToken, request: Request): Promise<void> {
  const given = BEARER.exec(request.headers.get('authorization') ?? '')?.[1];
  if (given === undefined) throw new OperatorError('UNAUTHORIZED', 'the operator token is missing');
  if (!(await token.matches(given))) throw new OperatorError('UNAUTHORIZED', 'the operator token is wrong');
}
