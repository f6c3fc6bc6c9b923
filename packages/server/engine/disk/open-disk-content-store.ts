/** Opens the bytes of a data folder: checks that it belongs to these rows, and removes what a killed process left in it. */

import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import type { ContentStore, MetadataStore, StoredObject } from '../../core/ports.ts';
import type { StagedUpload, UploadReceiver } from '../../core/upload-ports.ts';
import { codeOf } from '../../error-code.ts';
import { storageError } from '../local-failure.ts';
import { EngineRefused } from '../refused.ts';
import type { StoreIdentity } from '../store-identity.ts';
import type { ContentIntake, IntakeTarget, TakenContent } from '../transfer-ports.ts';
import { DiskContentStore } from './content-store.ts';
import { diskFiles, type Files } from './files.ts';
import { ObjectLayout, readMarker } from './object-layout.ts';
import { LocalReceivingRegistry } from './receiving-registry.ts';
import { removeReceivingRegistry, SharedReceivingRegistry } from './shared-receiving-registry.ts';

export const CONTENT_FOLDER = 'content';

interface DiskContentStoreConfig {
  /** the folder exists, and the caller holds it */
  readonly dataDir: string;
  readonly identity: StoreIdentity;
  readonly rows: Pick<MetadataStore, 'inlineBytesMax' | 'page' | 'readClock'> & {
    /** whether the PUT of this generation was recorded as complete */
    isFinished(generation: Generation): boolean;
  };
  /** how many processes have the folder open together */
  readonly workers: number;
  /** no other process has the folder open: what interrupted processes left half done is removed at once */
  readonly isAlone: boolean;
  readonly onFatal: (error: Error) => void;
  /** for a copy: throws after a write of unknown outcome */
  readonly assertSound?: (() => void) | undefined;
  /** tests inject a failing disk */
  readonly files?: Files | undefined;
}

/** Opens the content store, and the intake for a copy. @throws EngineRefused, or the disk's own error */
export async function openDiskContentStore(
  config: DiskContentStoreConfig,
): Promise<{ readonly content: ContentStore; readonly intake: ContentIntake }> {
  const { dataDir, identity, rows, workers, isAlone, onFatal, files = diskFiles } = config;
  const { assertSound = () => undefined } = config;
  const layout = new ObjectLayout(join(dataDir, CONTENT_FOLDER));
  const receiving = join(dataDir, 'live.db');
  if (isAlone) removeReceivingRegistry(receiving);
  await claimFolder(files, layout, identity);
  const content = new DiskContentStore({
    root: layout.root,
    storeId: identity.storeId,
    files,
    inlineBytesMax: rows.inlineBytesMax,
    registry: workers === 1 ? new LocalReceivingRegistry() : new SharedReceivingRegistry(receiving),
    isFinished: (generation) => rows.isFinished(generation),
    onFatal,
  });
  try {
    if (isAlone) await content.resolveInterrupted();
    else await content.sweep((keys) => rows.page('knownGenerations', keys), await rows.readClock());
  } catch (error) {
    await content.close();
    throw error;
  }
  const { receiver } = content.upload;
  return { content, intake: new DiskContentIntake({ receiver, layout, assertSound }) };
}

/** Makes the folders, and the first time the marker. It is durable before the rows note it, and noted before any other write. */
async function claimFolder(
  files: Files,
  layout: ObjectLayout,
  { storeId, isMarked, noteMarked }: StoreIdentity,
): Promise<void> {
  const marker = await readMarker(files, layout.marker);
  if (
    marker !== storeId &&
    (marker !== undefined || (isMarked && !(await isBegun(files, layout, storeId))))
  ) {
    throw notOurs(layout, storeId, isMarked);
  }
  files.makeFolders([layout.incoming, ...layout.shards()]);
  await files.syncFolder(layout.objects);
  if (marker === undefined) {
    await writeFile(layout.draft, `${storeId}\n`, { flush: true, mode: PRIVATE_FILE_MODE });
    await files.rename(layout.draft, layout.marker);
  }
  if (marker !== undefined && isMarked) return;
  for (const folder of [layout.root, dirname(layout.root)]) await files.syncFolder(folder);
  if (!isMarked) await noteMarked();
}

/** Whether an earlier version began here: it noted the id after writing the draft, and made the marker afterwards. */
async function isBegun(files: Files, layout: ObjectLayout, storeId: string): Promise<boolean> {
  return (await readMarker(files, layout.draft)) === storeId;
}

/** A marker without a note in the rows: the rows were lost. A note without a marker: the folder was lost. */
function notOurs({ root, marker }: ObjectLayout, storeId: string, isMarked: boolean): EngineRefused {
  return new EngineRefused(
    isMarked
      ? `${root} is not the content folder of this data (its STORE file should hold ${storeId}): mount its disk or restore it; to go on without its bytes, write that id into the file`
      : `${root} belongs to a deployment, but the database beside it does not know it: the database was lost, emptied or replaced; restore a backup of the folder, or, if nothing was ever kept in it, remove the file ${marker}`,
  );
}

interface ContentIntakeOptions {
  readonly receiver: UploadReceiver;
  readonly layout: ObjectLayout;
  /** throws after a write of unknown outcome, because a copy must not continue then */
  readonly assertSound: () => void;
}

/** ContentIntake on the content folder: receives bytes as uploads are received, and seals them at once. */
export class DiskContentIntake implements ContentIntake {
  readonly uploads = 'server';
  readonly #options: ContentIntakeOptions;

  constructor(options: ContentIntakeOptions) {
    this.#options = options;
  }

  async take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>): Promise<TakenContent> {
    const { receiver, assertSound } = this.#options;
    assertSound();
    const { canonicalSize } = target;
    // The limit is the exact size: a longer body would be another node.
    const limits = { nodeBytesMax: canonicalSize };
    const staged = await receiver.receive(target, open(), canonicalSize, limits);
    try {
      return await seal(staged);
    } catch (error) {
      await staged.release();
      throw error;
    }
  }

  async isThere({ generation, canonicalSize }: StoredObject): Promise<boolean> {
    try {
      const file = await diskFiles.openToRead(this.#options.layout.objectOf(generation));
      try {
        return file.sizeNow() === canonicalSize;
      } finally {
        await file.close();
      }
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw storageError(error, 'looking for an object');
    }
  }
}

async function seal(staged: StagedUpload): Promise<TakenContent> {
  const { evidence, inlineBytes } = staged;
  if (evidence.verdict === 'bad') {
    await staged.release();
    return { isRight: false };
  }
  if (inlineBytes === undefined) await staged.seal();
  const { integrity } = evidence;
  return { isRight: true, integrity, inlineBytes, release: () => staged.release() };
}
