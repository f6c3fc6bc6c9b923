/** The marks of a copy of the whole deployment, for a server that starts. */
import { EngineRefused } from '../refused.ts';
import type { MarkName } from '../transfer-ports.ts';
import type { SqliteMetadataStore } from './metadata-store.ts';

export const copyMarkName = (name: MarkName): string => `copy-${name}`;

/** Call before a server serves: refuses an unfinished copy, and ends the marks of earlier ones. @throws EngineRefused */
export async function beginServing(metadata: SqliteMetadataStore, dataDir: string): Promise<void> {
  if (metadata.findStoreValue(copyMarkName('unfinished')) !== undefined) {
    throw new EngineRefused(
      `the data folder ${dataDir} holds an unfinished copy of another deployment: finish it by the same holdfast migrate command, or begin with another folder`,
    );
  }
  for (const name of ['epoch', 'finished'] as const) await metadata.removeStoreValue(copyMarkName(name));
}
