/** Removes names of files durably. */
import type { Generation } from '../../core/model.ts';
import { codeOf } from '../../error-code.ts';
import type { Files } from './files.ts';
import type { ObjectLayout } from './object-layout.ts';

export interface DurableNamesOptions {
  readonly files: Files;
  readonly layout: ObjectLayout;
  /** called for a failed fsync: it is unknown what reached the disk */
  readonly onFatal: (error: Error) => void;
}

/** A second fsync may report success for what the first one lost, so a failed one is fatal. */
export async function syncOrEnd(
  { onFatal }: Pick<DurableNamesOptions, 'onFatal'>,
  sync: () => Promise<void>,
): Promise<void> {
  try {
    await sync();
  } catch (error) {
    onFatal(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

/** Resolves when the object's name is durably gone; `false` if there was none. That is made durable too: its remover may have died. */
export async function removeObject(options: DurableNamesOptions, generation: Generation): Promise<boolean> {
  const { files, layout } = options;
  try {
    // The folder is opened before the removal, so that a failure here changes nothing.
    const folder = await files.openFolder(layout.shardOf(generation));
    try {
      const wasThere = await removeIfThere(files, layout.objectOf(generation));
      await syncOrEnd(options, () => folder.sync());
      return wasThere;
    } finally {
      folder.closeNow();
    }
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    return false;
  }
}

async function removeIfThere(files: Files, path: string): Promise<boolean> {
  try {
    await files.remove(path);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    return false;
  }
}
