/** Links that sign in to the console, and their sessions. A code works once, for a limited time. A session ends with the process. */
import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../core/signer.ts';
import { OperatorError } from './problem.ts';
import type { Operator } from './rights.ts';

/** ms */
const CODE_LIFE_MS = 15 * 60 * 1000;
export const CODE_LIFE_MINUTES = CODE_LIFE_MS / 60_000;

export interface SignInCode {
  readonly code: string;
  /** ms since the epoch */
  readonly expiresAt: number;
}

/** How the console reaches the Space API. */
export interface SpaceAccess {
  readonly url: string;
  readonly app: string;
  readonly space: string;
  readonly token: string;
}

const CONSOLE: Operator = { name: 'console', rights: ['all'] };

export function makeSignInCode(): SignInCode {
  return { code: randomBytes(24).toString('base64url'), expiresAt: Date.now() + CODE_LIFE_MS };
}

interface ConsoleParts {
  /** the page's address without a trailing slash; called once it listens */
  readonly nameUrl: () => string;
  /** undefined if there is no demo App */
  readonly grantSpace: (() => Promise<SpaceAccess>) | undefined;
  /** the code of the link printed at start */
  readonly code: SignInCode | undefined;
}

export class ConsoleSignIn {
  readonly #parts: ConsoleParts;
  /** digest → expiry, ms since the epoch */
  readonly #codes = new Map<string, number>();
  readonly #sessions = new Map<string, number>();

  constructor(parts: ConsoleParts) {
    this.#parts = parts;
    if (parts.code !== undefined) this.#codes.set(sha256Hex(parts.code.code), parts.code.expiresAt);
  }

  makeLink(): { readonly url: string; readonly expiresAt: number } {
    const { code, expiresAt } = makeSignInCode();
    keep(this.#codes, code, expiresAt, 16);
    return { url: nameLink(this.#parts.nameUrl(), code), expiresAt };
  }

  /** @throws OperatorError FORBIDDEN if the code is wrong, used or expired */
  async redeem(
    given: string,
  ): Promise<{ readonly operatorToken: string; readonly space: SpaceAccess | undefined }> {
    const digest = sha256Hex(given);
    const expiresAt = this.#codes.get(digest);
    this.#codes.delete(digest);
    if (expiresAt === undefined || Date.now() >= expiresAt) {
      throw new OperatorError(
        'FORBIDDEN',
        'the link is used up or too old: run holdfast console on the machine of the server for a new one, or sign in with a token',
      );
    }
    const space = await this.#parts.grantSpace?.();
    const operatorToken = randomBytes(32).toString('base64url');
    // The token of a demo lives as long.
    keep(this.#sessions, operatorToken, Date.now() + 24 * 60 * 60 * 1000, 64);
    return { operatorToken, space };
  }

  findOperator(given: string): Operator | undefined {
    const expiresAt = this.#sessions.get(sha256Hex(given));
    return expiresAt !== undefined && Date.now() < expiresAt ? CONSOLE : undefined;
  }
}

export function nameLink(consoleUrl: string, code: string): string {
  return `${consoleUrl}/#signin=${code}`;
}

function keep(kept: Map<string, number>, secret: string, expiresAt: number, countMax: number): void {
  kept.set(sha256Hex(secret), expiresAt);
  const [oldest] = kept.keys();
  if (kept.size > countMax && oldest !== undefined) kept.delete(oldest);
}
