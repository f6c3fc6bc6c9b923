/** The id with the rows, then the marker in the folder, then the note of it: whatever step a first start ends at. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { EngineRefused } from '../refused.ts';
import type { StoreIdentity } from '../store-identity.ts';
import { diskFiles, type Files } from './files.ts';
import { ObjectLayout } from './object-layout.ts';
import { openDiskContentStore } from './open-disk-content-store.ts';

let dataDir: string;
let marker: string;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'holdfast-claim-'));
  marker = join(dataDir, 'content', 'STORE');
});
afterEach(() => rm(dataDir, { recursive: true }));

/** The rows of one deployment, as they are kept from start to start. */
class Rows {
  isMarked = false;

  identity(noteMarked: () => void = () => undefined): StoreIdentity {
    return {
      storeId: 'one',
      isMarked: this.isMarked,
      noteMarked: async () => {
        noteMarked();
        this.isMarked = true;
      },
    };
  }
}

async function start(
  identity: StoreIdentity,
  files: Files = diskFiles,
  isFinished: () => boolean = () => false,
): Promise<void> {
  const { content } = await openDiskContentStore({
    ...{ dataDir, identity, files, workers: 1, isAlone: true },
    rows: {
      inlineBytesMax: 1000,
      isFinished,
      page: () => new Set() as never,
      readClock: () => 0,
    },
    onFatal: () => undefined,
  });
  await content.close();
}

const findMarker = (): Promise<string | undefined> =>
  readFile(marker, 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );

/** A first start whose process ends after the `last` step that changes the disk. */
function filesUntil(last: number, steps: string[]): Files {
  const step = <Args extends unknown[], Result>(name: string, run: (...args: Args) => Result) => {
    return (...args: Args): Result => {
      if (steps.length === last) throw new Error('gone');
      steps.push(name);
      return run(...args);
    };
  };
  return {
    ...diskFiles,
    makeFolders: step('folders', diskFiles.makeFolders),
    rename: step('rename', diskFiles.rename),
    syncFolder: step('sync', diskFiles.syncFolder),
  };
}

describe('a content folder', () => {
  test('is marked, durably, before the rows note it; the next start after any step goes on', async () => {
    const whole: string[] = [];
    await start(
      new Rows().identity(() => whole.push('note')),
      filesUntil(100, whole),
    );
    expect(whole).toEqual(['folders', 'sync', 'rename', 'sync', 'sync', 'note']);
    for (let last = 0; last < whole.length - 1; last += 1) {
      await rm(join(dataDir, 'content'), { recursive: true, force: true });
      const rows = new Rows();
      await expect(start(rows.identity(), filesUntil(last, []))).rejects.toThrow('gone');
      expect(rows.isMarked).toBe(false);
      const steps: string[] = [];
      await start(
        rows.identity(() => steps.push('note')),
        filesUntil(100, steps),
      );
      // The marker that the previous start made may not be durable yet.
      expect(steps.slice(-3)).toEqual(['sync', 'sync', 'note']);
      expect([rows.isMarked, await findMarker()]).toEqual([true, 'one']);
    }
  });

  test('with an unfinished file of which the rows are damaged is opened, and the file stays', async () => {
    const rows = new Rows();
    await start(rows.identity());
    const staged = new ObjectLayout(join(dataDir, 'content')).stagedPath(
      'a'.repeat(32),
      `1-${'b'.repeat(12)}`,
      1,
    );
    await writeFile(staged, 'some');
    await start(rows.identity(), diskFiles, () => {
      throw new StoreUnavailable('a page is damaged', { isDamage: true });
    });
    expect(await readFile(staged, 'utf8')).toBe('some');
    await start(rows.identity());
    expect(await Bun.file(staged).exists()).toBe(false);
  });

  test('that is marked is not marked again', async () => {
    const rows = new Rows();
    await start(rows.identity());
    const steps: string[] = [];
    await start(
      rows.identity(() => steps.push('note')),
      filesUntil(100, steps),
    );
    expect(steps).toEqual(['folders', 'sync']);
  });

  test('that lost its marker, or has the marker of another deployment, is refused and left as it is', async () => {
    const rows = new Rows();
    await start(rows.identity());
    await rm(marker);
    for (const draft of [undefined, 'another']) {
      if (draft !== undefined) await writeFile(`${marker}.new`, draft);
      const refused = await start(rows.identity()).catch((error) => error);
      expect(refused).toBeInstanceOf(EngineRefused);
      expect(refused.message).toContain('should hold one');
      expect(await findMarker()).toBeUndefined();
    }
    await writeFile(marker, 'another');
    await expect(start(rows.identity())).rejects.toThrow('should hold one');
    // Rows that never marked a folder: those that belonged to it were lost.
    const stranger = await start(new Rows().identity()).catch((error) => error);
    expect(stranger).toBeInstanceOf(EngineRefused);
    expect(stranger.message).toContain('restore a backup');
    expect(await findMarker()).toBe('another');
  });

  test('whose id an earlier version noted before it made the marker is completed', async () => {
    const rows = new Rows();
    await start(rows.identity());
    await rm(marker);
    await writeFile(`${marker}.new`, 'one\n');
    await start(rows.identity());
    expect(await findMarker()).toBe('one');
  });
});
