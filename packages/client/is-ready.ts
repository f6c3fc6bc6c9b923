/** Whether a Space has a node, asked by reading alone: no lease, so no upload is begun for one that is missing. */
import type { Hash } from '@holdfast/protocol';
import { CasError } from './errors.ts';
import type { CallOptions, Operations } from './operations.ts';

/** False for a node that is absent or not ready yet. Throws CasError for anything else that goes wrong. */
export async function isReady(
  client: Pick<Operations, 'readMetadata'>,
  hash: Hash,
  options: CallOptions,
): Promise<boolean> {
  try {
    await client.readMetadata(hash, options);
    return true;
  } catch (error) {
    if (error instanceof CasError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}
