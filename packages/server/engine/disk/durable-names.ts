/** What takes a name away for good. */
import type { Generation } from '../../core/model.ts';
import { codeOf } from '../local-failure.ts';
import type { Files } from './files.ts';
import type { ObjectLayout } from './object-layout.ts';

export interface DurableNamesOptions {
  readonly files: Files;
  readonly layout: ObjectLayout;
  /** a failed fsync: what reached the disk is unknown */
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

/**
 * Resolves when the name of the object is gone for good; `false` when there was none, or not even its folder. An absent name
 * is made durable as well: whoever removed it may have been killed before that.
 */
export async function removeObject(options: DurableNamesOptions, generation: Generation): Promise<boolean> {
  const { files, layout } = options;
  try {
    // Opened before the removal: a failure here changes nothing, and after it a repetition would find no name.
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
