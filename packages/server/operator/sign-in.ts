/**
 * The link that `serve --dev` prints on the terminal: it opens the console signed in to the demo's Space. Its code is good once and
 * for a while; whoever reads the terminal may use it, and nobody else learns it.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { OperatorError } from './problem.ts';

/** ms */
const CODE_LIFE_MS = 15 * 60 * 1000;
export const CODE_LIFE_MINUTES = CODE_LIFE_MS / 60_000;
const CODE_BYTES = 24;

export interface SignInCode {
  readonly code: string;
  /** ms since the epoch */
  readonly expiresAt: number;
}

/** What the console needs to use the Space API. */
export interface SpaceAccess {
  readonly url: string;
  readonly app: string;
  readonly space: string;
  readonly token: string;
}

export function makeSignInCode(): SignInCode {
  return { code: randomBytes(CODE_BYTES).toString('base64url'), expiresAt: Date.now() + CODE_LIFE_MS };
}

/** One code that can be exchanged once. */
export class SignIn {
  #code: SignInCode | undefined;
  readonly #makeAccess: () => Promise<SpaceAccess>;

  constructor(code: SignInCode, makeAccess: () => Promise<SpaceAccess>) {
    this.#code = code;
    this.#makeAccess = makeAccess;
  }

  /** Throws OperatorError (FORBIDDEN) for a code that is wrong, used or too old. */
  async redeem(given: string): Promise<SpaceAccess> {
    const expected = this.#code;
    const isRight =
      expected !== undefined &&
      Date.now() < expected.expiresAt &&
      given.length === expected.code.length &&
      timingSafeEqual(Buffer.from(given), Buffer.from(expected.code));
    if (!isRight) {
      throw new OperatorError(
        'FORBIDDEN',
        'the link is used up or too old: start the server again for a new one, or sign in with the token that it printed',
      );
    }
    this.#code = undefined;
    return this.#makeAccess();
  }
}
