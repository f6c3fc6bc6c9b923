/** The embedded engine: rows in SQLite, bytes on local disk, both in one data folder. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock, ContentStore, MetadataStore } from '../core/ports.ts';
import { DiskContentStore } from '../engine/disk/content-store.ts';
import { diskFiles, type Files } from '../engine/disk/files.ts';
import { ObjectLayout, readMarker } from '../engine/disk/object-layout.ts';
import { LocalReceivingRegistry } from '../engine/disk/receiving-registry.ts';
import {
  removeReceivingRegistry,
  SharedReceivingRegistry,
} from '../engine/disk/shared-receiving-registry.ts';
import { EngineRefused } from '../engine/refused.ts';
import { beginServing } from '../engine/sqlite/copy-marks.ts';
import { SqliteMetadataStore } from '../engine/sqlite/metadata-store.ts';

export const DATABASE_FILE = 'holdfast.db';
const RECEIVING_FILE = 'live.db';
export const CONTENT_FOLDER = 'content';
const STORE_ID_BYTES = 16;
/** Names of values kept with the rows: the id of the content folder, or of another store that has the bytes instead. */
export const FOLDER_STORE_ID = 'content-store-id';
export const OTHER_STORE_ID = 'other-store-id';

export interface EmbeddedEngineOptions {
  /** exists; its lock is held by the caller */
  readonly dataDir: string;
  /** processes that serve this folder together */
  readonly workers: number;
  /** no other process has the folder open now; true when left out and there is but one worker */
  readonly isAlone?: boolean;
  readonly clock: Clock;
  /** the outcome of a write is unknown, or an invariant is broken: end the process and start again from what is durable */
  readonly onFatal: (error: Error) => void;
  /** to be copied: nobody is served, and an unfinished copy may be opened (copy-marks.ts) */
  readonly isForCopy?: boolean;
  /** tests put a failing disk here */
  readonly files?: Files;
}

export interface EmbeddedEngine {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  close(): Promise<void>;
}

/** @throws EngineRefused, or the disk's own error */
export async function openEmbeddedEngine(options: EmbeddedEngineOptions): Promise<EmbeddedEngine> {
  const { dataDir, clock, onFatal, workers, isAlone = workers === 1, files = diskFiles } = options;
  const metadata = new SqliteMetadataStore({
    path: join(dataDir, DATABASE_FILE),
    clock,
    onFatal,
    isShared: workers > 1,
  });
  try {
    if (options.isForCopy !== true) await beginServing(metadata, dataDir);
    const root = join(dataDir, CONTENT_FOLDER);
    if (isAlone) removeReceivingRegistry(join(dataDir, RECEIVING_FILE));
    const content = new DiskContentStore({
      root,
      storeId: await prepareFolder(metadata, files, new ObjectLayout(root)),
      files,
      inlineBytesMax: metadata.inlineBytesMax,
      registry:
        workers === 1
          ? new LocalReceivingRegistry()
          : new SharedReceivingRegistry(join(dataDir, RECEIVING_FILE)),
      isFinished: (generation) => metadata.isFinished(generation),
      onFatal,
    });
    if (isAlone) {
      await metadata.releaseClaims();
      await content.resolveInterrupted();
    } else await content.sweep((keys) => metadata.findKnownGenerations(keys), metadata.readClock());
    return {
      metadata,
      content,
      async close() {
        await content.close();
        await metadata.close();
      },
    };
  } catch (error) {
    await metadata.close();
    throw error;
  }
}

/**
 * Makes the folders and the marker the first time. The id is recorded only after the folder is whole and durable, under another
 * name, and becomes the marker after that: a crash in between begins anew or goes on. So a recorded id without its marker,
 * and a marker without its id, is a folder or a database that was lost: it is refused, never made again.
 */
async function prepareFolder(
  metadata: SqliteMetadataStore,
  files: Files,
  layout: ObjectLayout,
): Promise<string> {
  if (metadata.findStoreValue(OTHER_STORE_ID) !== undefined) {
    throw new EngineRefused(
      `the bytes of ${dirname(layout.root)} are in another store: give its --content, as before`,
    );
  }
  const recorded = metadata.findStoreValue(FOLDER_STORE_ID);
  const marker = await readMarker(files, layout.marker);
  if (recorded === undefined && marker !== undefined) {
    throw new EngineRefused(
      `${layout.root} is in use, but ${DATABASE_FILE} beside it knows nothing of it: it was lost, emptied or replaced; restore a backup of the folder, or, if nothing was ever kept in it, remove the file ${layout.marker}`,
    );
  }
  const isUnfinished =
    marker === undefined && recorded !== undefined && (await readMarker(files, layout.draft)) === recorded;
  if (recorded !== undefined && marker !== recorded && !isUnfinished) {
    throw new EngineRefused(
      `${layout.root} is not the content folder of this data (its STORE file should hold ${recorded}): mount its disk or restore it; to go on without its bytes, write that id into the file`,
    );
  }
  files.makeFolders([layout.incoming, layout.outgoing, ...layout.shards()]);
  await files.syncFolder(layout.objects);
  if (recorded !== undefined && !isUnfinished) return recorded;
  const id = recorded ?? (await recordStoreId(metadata, files, layout));
  await files.rename(layout.draft, layout.marker);
  await files.syncFolder(layout.root);
  return id;
}

async function recordStoreId(
  metadata: SqliteMetadataStore,
  files: Files,
  layout: ObjectLayout,
): Promise<string> {
  const id = randomBytes(STORE_ID_BYTES).toString('hex');
  await writeFile(layout.draft, `${id}\n`, { flush: true, mode: 0o600 });
  for (const folder of [layout.root, dirname(layout.root)]) await files.syncFolder(folder);
  return await metadata.insertStoreValue(FOLDER_STORE_ID, id);
}
