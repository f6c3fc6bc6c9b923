/** Composition of the embedded engine: everything is in one data folder, which the caller holds (data-folder.ts). */
import { join } from 'node:path';
import { makeLocalTurns, NO_TURNS } from './background-turns.ts';
import type { Clock } from './core/ports.ts';
import { explainFolderError } from './data-folder.ts';
import { DataFolderNewer } from './engine/embedded/migrations.ts';
import { ContentFolderMissing, openEmbeddedEngine } from './engine/embedded/open-embedded-engine.ts';
import { openEmbeddedRegistryStore, RegistryFileError } from './engine/embedded/registry-store.ts';
import { type Engines, Opened } from './engines.ts';
import { ServeError } from './serve-error.ts';
import { openSigner } from './signer.ts';

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly workers: number;
  /** this process's number among them; 0 does the background work */
  readonly worker: number;
  readonly isAlone: boolean;
  readonly clock: Clock;
  readonly onFatal: (error: Error) => void;
}

/** Rejects with ServeError. */
export async function openEmbedded(options: EmbeddedOptions): Promise<Engines> {
  const { dataDir, workers, worker, isAlone, clock, onFatal } = options;
  const opened = new Opened();
  try {
    const signer = await openSigner(dataDir);
    const engine = await openEmbeddedEngine({ dataDir, workers, isAlone, clock, onFatal });
    opened.add(() => engine.close());
    const registryStore = openEmbeddedRegistryStore(dataDir);
    opened.add(() => registryStore.close());
    return {
      metadata: engine.metadata,
      content: engine.content,
      registryStore,
      signer,
      turns: worker === 0 ? makeLocalTurns() : NO_TURNS,
      spoolFolder: join(dataDir, 'spool', String(worker)),
      close: () => opened.close(),
    };
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw explainStartError(dataDir, error);
  }
}

function explainStartError(dataDir: string, error: unknown): unknown {
  const isExplained =
    error instanceof DataFolderNewer ||
    error instanceof ContentFolderMissing ||
    error instanceof RegistryFileError;
  if (isExplained) return new ServeError(error.message, { cause: error });
  return explainFolderError(dataDir, error);
}
