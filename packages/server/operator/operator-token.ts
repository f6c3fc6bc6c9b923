/** The token of operators, in a file that may be written anew while the server runs. */
import { timingSafeEqual } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';

/** A shorter one could be guessed. */
const TOKEN_LENGTH_MIN = 8;
const TOKEN_LENGTH_MAX = 4096;
/** ms; a new token holds after this at the latest */
const LOOK_MS = 1000;
const PRINTABLE = /^[\x21-\x7e]+$/;

/** Throws ServeError if the file holds no usable token. */
export function readToken(file: string): { readonly digest: Uint8Array; readonly version: string } {
  try {
    const version = versionOf(statSync(file));
    return { version, digest: digestOf(parseToken(file, readFileSync(file, 'utf8'))) };
  } catch (error) {
    if (error instanceof ServeError) throw error;
    throw new ServeError(
      `the operators' token file ${file} cannot be read (${codeOf(error)}): check --operator-token-file`,
      { cause: error },
    );
  }
}

export class OperatorToken {
  readonly #file: string;
  readonly #log: Log;
  #digest: Uint8Array;
  #version: string;
  #lookedAt = performance.now();

  /** Throws ServeError if the file holds no usable token. */
  constructor(file: string, log: Log) {
    this.#file = file;
    this.#log = log;
    const { digest, version } = readToken(file);
    this.#digest = digest;
    this.#version = version;
  }

  /** Compares in a time that says nothing of the token. */
  async matches(given: string): Promise<boolean> {
    if (performance.now() - this.#lookedAt > LOOK_MS) await this.#look();
    return timingSafeEqual(digestOf(given), this.#digest);
  }

  /** A file that is gone or holds no token, perhaps because it is being written, leaves the former token in force. */
  async #look(): Promise<void> {
    this.#lookedAt = performance.now();
    try {
      const version = versionOf(await stat(this.#file));
      if (version === this.#version) return;
      this.#digest = digestOf(parseToken(this.#file, await readFile(this.#file, 'utf8')));
      this.#version = version;
      this.#log.info('the operators have a new token');
    } catch (error) {
      this.#log.warn(
        { reason: codeOf(error) ?? (error as Error).message },
        'the token of the operators could not be renewed: the former one stays in force',
      );
    }
  }
}

const versionOf = ({ mtimeMs, ino, size }: { mtimeMs: number; ino: number; size: number }): string =>
  `${mtimeMs} ${ino} ${size}`;

/** Digests have one length, and comparing them does not tell how much of a token was right. */
function digestOf(token: string): Uint8Array {
  return new Bun.CryptoHasher('sha256').update(token).digest();
}

/** The message quotes nothing of the file. */
function parseToken(file: string, content: string): string {
  const token = content.trim();
  const isUsable =
    token.length >= TOKEN_LENGTH_MIN && token.length <= TOKEN_LENGTH_MAX && PRINTABLE.test(token);
  if (isUsable) return token;
  throw new ServeError(
    `the operators' token file ${file} must hold one word of ${TOKEN_LENGTH_MIN} to ${TOKEN_LENGTH_MAX} printable characters: make one with openssl rand -hex 32`,
  );
}
