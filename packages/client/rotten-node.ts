/** Rot: a node that the Space knows, but whose bytes are lost or damaged. How it is told from a server that is only busy. */
import type { Hash } from '@holdfast/protocol';
import type { Client } from './client.ts';
import { type Clock, sleep } from './deadline.ts';
import { CasError } from './errors.ts';

/** A 503 may mean any trouble of a store. It means rot if it comes again after the wait that the server asked for. */
export const ROT_EVIDENCE_MIN = 2;
const ROT_WAIT_MS_MAX = 1_000;

/** The Space knows the node, but its bytes are lost or damaged: they must be pushed again. */
export class RottenNodeError extends Error {
  override readonly name = 'RottenNodeError';
  readonly hash: Hash;

  constructor(hash: Hash, cause: unknown) {
    super(`${hash}: the server has lost the bytes of this node, or they are damaged`, { cause });
    this.hash = hash;
  }
}

export interface RotOptions {
  readonly client: Pick<Client, 'readMetadata'>;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  /** how many times the content is refused before that is believed */
  readonly evidenceMin: number;
}

/**
 * Reads the content of `hash` by `read`. A refusal is believed to be rot only when it comes again. This function waits in
 * between, so that no other request waits. Throws RottenNodeError, and what `read` throws.
 */
export async function readUnlessRotten<T>(
  hash: Hash,
  read: () => Promise<T>,
  options: RotOptions,
): Promise<T> {
  const { clock, signal, evidenceMin } = options;
  for (let evidence = 1; ; evidence += 1) {
    try {
      return await read();
    } catch (error) {
      if (!(await looksRotten(hash, error, options))) throw error;
      if (evidence >= evidenceMin) throw new RottenNodeError(hash, error);
      const askedMs = error instanceof CasError ? error.retryAfterMs : undefined;
      await sleep(clock, Math.min(askedMs ?? ROT_WAIT_MS_MAX, ROT_WAIT_MS_MAX), signal);
    }
  }
}

/** A 503 for the content alone, while the metadata is fine: a server that is only busy does not describe the node either. */
async function looksRotten(hash: Hash, error: unknown, { client, signal }: RotOptions): Promise<boolean> {
  if (!(error instanceof CasError) || error.code !== 'SERVICE_UNAVAILABLE') return false;
  if (error.requestOperation !== 'readContent') return false;
  try {
    await client.readMetadata(hash, { signal });
    return true;
  } catch {
    // Then the first error tells more.
    return false;
  }
}
