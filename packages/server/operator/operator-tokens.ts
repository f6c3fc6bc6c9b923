/** The tokens of operators, in a file that may be written anew while the server runs. */
import { timingSafeEqual } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { codeOf } from '../error-code.ts';
import { ConfigError } from '../errors.ts';
import type { Log } from '../log.ts';
import { readSecretFile, versionOf } from '../secret-file.ts';
import type { Operator } from './rights.ts';
import { digestOf, parseTokenLines, type TokenEntry } from './token-lines.ts';

const WHAT = "the operators' token file";

/** The data by which a process judges tokens: no token is in it. */
export interface LoadedTokens {
  readonly entries: readonly TokenEntry[];
  /** undefined: the entries stay as they are until the server ends */
  readonly file: { readonly path: string; readonly version: string } | undefined;
}

/** Rejects with ConfigError: a file that cannot be read or understood is a wrong setting. */
export async function loadTokens(path: string): Promise<LoadedTokens> {
  try {
    const { bytes, version } = await readSecretFile(path, WHAT);
    const entries = parseTokenLines(path, Buffer.from(bytes).toString());
    // A pipe gives its bytes once.
    return { entries, file: version === undefined ? undefined : { path, version } };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // Without the path: it may be a token that was given in the place of its file.
    throw new ConfigError(
      `${WHAT} cannot be read (${codeOf(error)}): check the path and the rights of --operator-token-file`,
      { cause: error },
    );
  }
}

export type TokenVerdict =
  | { readonly kind: 'known'; readonly operator: Operator }
  | { readonly kind: 'expired'; readonly name: string }
  | { readonly kind: 'unknown' };

export class OperatorTokens {
  readonly #log: Log;
  #loaded: LoadedTokens;
  /** A process that takes the place of another was given what that one had read. */
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(loaded: LoadedTokens, log: Log) {
    this.#loaded = loaded;
    this.#log = log;
  }

  /** Takes a time that says nothing of the tokens. */
  async judge(given: string): Promise<TokenVerdict> {
    // A new token holds after a second.
    if (performance.now() - this.#lookedAt > 1000) await this.#look();
    const digest = Buffer.from(digestOf(given));
    let found: TokenEntry | undefined;
    for (const entry of this.#loaded.entries) {
      if (timingSafeEqual(digest, Buffer.from(entry.digest))) found = entry;
    }
    if (found === undefined) return { kind: 'unknown' };
    const { name, rights, until } = found;
    if (until !== undefined && Date.now() >= until) return { kind: 'expired', name };
    return { kind: 'known', operator: { name, rights } };
  }

  /** A file that is gone or holds no tokens, perhaps because it is being written, leaves the former ones in force. */
  async #look(): Promise<void> {
    this.#lookedAt = performance.now();
    const { file } = this.#loaded;
    if (file === undefined) return;
    try {
      if (versionOf(await stat(file.path)) === file.version) return;
      this.#loaded = await loadTokens(file.path);
      this.#log.info({ tokens: this.#loaded.entries.length }, 'the operators have new tokens');
    } catch (error) {
      this.#log.warn(
        { reason: codeOf(error) ?? (error as Error).message },
        'the tokens of the operators could not be renewed: the former ones stay in force',
      );
    }
  }
}
