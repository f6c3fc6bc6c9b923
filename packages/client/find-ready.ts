/** Whether a Space has a node, asked by reading alone: no lease, so no upload is begun for one that is missing. */
import type { Hash } from '@holdfast/protocol';
import { CasError } from './errors.ts';
import type { CallOptions, Operations, RotNotice } from './operations.ts';

/** The damage that the server reports beside a ready node; undefined for a node that is absent or not ready yet. Throws CasError. */
export async function findReady(
  client: Pick<Operations, 'readMetadata'>,
  hash: Hash,
  options: CallOptions,
): Promise<RotNotice | undefined> {
  try {
    const { rottenNodes } = await client.readMetadata(hash, options);
    return rottenNodes === undefined ? {} : { rottenNodes };
  } catch (error) {
    if (error instanceof CasError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
