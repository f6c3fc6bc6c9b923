/** The rows of the embedded engine alone, for bytes that are kept in another store. */
import { join } from 'node:path';
import type { Clock, MetadataStore } from '../core/ports.ts';
import { EngineRefused } from '../engine/refused.ts';
import { beginServing } from '../engine/sqlite/copy-marks.ts';
import { SqliteMetadataStore } from '../engine/sqlite/metadata-store.ts';
import { DATABASE_FILE, FOLDER_STORE_ID, OTHER_STORE_ID } from './open-embedded-engine.ts';

const MARKED = 'other-store-marked';

interface EmbeddedRowsOptions {
  /** exists; its lock is held by the caller */
  readonly dataDir: string;
  /** processes that serve this folder together */
  readonly workers: number;
  /** no other process has the folder open now */
  readonly isAlone: boolean;
  readonly clock: Clock;
  readonly onFatal: (error: Error) => void;
  /** to be copied: nobody is served, and an unfinished copy may be opened (copy-marks.ts) */
  readonly isForCopy?: boolean;
}

export interface EmbeddedRows {
  readonly metadata: MetadataStore;
  /** What names the store of the bytes; made once, by `make`. @throws EngineRefused: they are in the folder */
  findOrCreateStoreId(make: () => string): Promise<string>;
  /** whether `noteMarked` was ever called */
  readonly isMarked: boolean;
  noteMarked(): Promise<void>;
}

/** @throws EngineRefused, or the disk's own error */
export async function openEmbeddedRows(options: EmbeddedRowsOptions): Promise<EmbeddedRows> {
  const { dataDir, workers, isAlone, clock, onFatal } = options;
  const path = join(dataDir, DATABASE_FILE);
  const metadata = new SqliteMetadataStore({ path, clock, onFatal, isShared: workers > 1 });
  try {
    if (options.isForCopy !== true) await beginServing(metadata, dataDir);
    if (metadata.findStoreValue(FOLDER_STORE_ID) !== undefined) {
      throw new EngineRefused(
        `the bytes of ${dataDir} are in that folder: leave --content out, or begin with another --data folder`,
      );
    }
    if (isAlone) await metadata.releaseClaims();
    return {
      metadata,
      async findOrCreateStoreId(make) {
        return (
          metadata.findStoreValue(OTHER_STORE_ID) ?? (await metadata.insertStoreValue(OTHER_STORE_ID, make()))
        );
      },
      isMarked: metadata.findStoreValue(MARKED) !== undefined,
      async noteMarked() {
        await metadata.insertStoreValue(MARKED, 'yes');
      },
    };
  } catch (error) {
    await metadata.close();
    throw error;
  }
}
