/** The operators' tokens, in a file that may be replaced while the server runs. */
import { timingSafeEqual } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { sha256Hex } from '../core/signer.ts';
import { codeOf } from '../error-code.ts';
import { ConfigError } from '../errors.ts';
import type { Log } from '../log.ts';
import { readSecretFile, versionOf } from '../secret-file.ts';
import type { Operator } from './rights.ts';
import { parseTokenLines, type TokenEntry } from './token-lines.ts';

const WHAT = "the operators' token file";

export interface LoadedTokens {
  readonly entries: readonly TokenEntry[];
  /** undefined if the entries never change while the server runs */
  readonly file: { readonly path: string; readonly version: string } | undefined;
}

/** Rejects with ConfigError if the file is unreadable or invalid. */
export async function loadTokens(path: string): Promise<LoadedTokens> {
  try {
    const { bytes, version } = await readSecretFile(path, WHAT);
    const entries = parseTokenLines(path, Buffer.from(bytes).toString());
    // A pipe can be read only once.
    return { entries, file: version === undefined ? undefined : { path, version } };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // Omits the path, because it may be a token given in place of a file.
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
  /** A replacement process received the entries of its predecessor. */
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(loaded: LoadedTokens, log: Log) {
    this.#loaded = loaded;
    this.#log = log;
  }

  /** Takes a time that does not depend on the tokens. */
  async judge(given: string): Promise<TokenVerdict> {
    // A new token is valid after a second.
    if (performance.now() - this.#lookedAt > 1000) await this.#look();
    const digest = Buffer.from(sha256Hex(given));
    let found: TokenEntry | undefined;
    for (const entry of this.#loaded.entries) {
      if (timingSafeEqual(digest, Buffer.from(entry.digest))) found = entry;
    }
    if (found === undefined) return { kind: 'unknown' };
    const { name, rights, until } = found;
    if (until !== undefined && Date.now() >= until) return { kind: 'expired', name };
    return { kind: 'known', operator: { name, rights } };
  }

  /** If the file is missing or invalid, perhaps because it is being written, the former tokens stay valid. */
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
