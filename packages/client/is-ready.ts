/** Whether a Space has a node, asked by reading alone: no lease, so no upload is begun for one that is missing. */
import type { Hash } from '@holdfast/protocol';
import { CasError } from './errors.ts';
import type { CallOptions, Operations, RotNotice } from './operations.ts';

/** False for a node that is absent or not ready yet. Throws CasError for anything else that goes wrong. */
export async function isReady(
  client: Pick<Operations, 'readMetadata'>,
  hash: Hash,
  options: CallOptions,
): Promise<boolean> {
  return (await findReady(client, hash, options)) !== undefined;
}

/** What the server says besides of a node that is ready; undefined for any other. Throws CasError. */
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
