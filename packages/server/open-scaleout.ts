/** Composition of the scale-out engines: rows in PostgreSQL, bytes in S3. Nothing is kept on this machine. */

import type { PostgresAddress, S3Address } from './engine-urls.ts';
import type { Engines } from './engines.ts';
import type { Log } from './log.ts';
import { ServeError } from './serve-error.ts';

interface ScaleoutOptions {
  readonly metadata: PostgresAddress;
  readonly content: S3Address;
  readonly uploadTtlMs: number;
  readonly log: Log;
  readonly onFatal: (error: Error) => void;
}

/** Rejects with ServeError. */
export async function openScaleout(_: ScaleoutOptions): Promise<Engines> {
  throw new ServeError('the scale-out engines are not there yet; leave out --metadata and --content');
}
