/** What a copy of the whole deployment keeps among the values of the store, and what it means to a server that starts. */
import { EngineRefused } from '../refused.ts';
import type { MarkName } from '../transfer-ports.ts';
import type { SqliteMetadataStore } from './metadata-store.ts';

export const copyMarkName = (name: MarkName): string => `copy-${name}`;

/** Before a server serves: no part of a copy, and from now on no copy is one of what is here. @throws EngineRefused */
export async function beginServing(metadata: SqliteMetadataStore, dataDir: string): Promise<void> {
  if (metadata.findStoreValue(copyMarkName('unfinished')) !== undefined) {
    throw new EngineRefused(
      `the data folder ${dataDir} holds an unfinished copy of another deployment: finish it by the same holdfast migrate command, or begin with another folder`,
    );
  }
  for (const name of ['epoch', 'finished'] as const) await metadata.removeStoreValue(copyMarkName(name));
}
