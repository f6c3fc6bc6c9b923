/** Files on their way to becoming objects, and the undoing of those whose upload was interrupted. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Generation } from '../../core/model.ts';
import { codeOf } from './failure.ts';
import type { Files, OpenFile } from './files.ts';
import { type ObjectLayout, parseStagedName, type StagedName } from './object-layout.ts';

/** leftovers resolved by one sweep */
const LEFTOVERS_PER_SWEEP_MAX = 256;

interface StagedFilesOptions {
  readonly files: Files;
  readonly layout: ObjectLayout;
  /** whether the PUT of this generation was recorded as complete */
  readonly isFinished: (generation: Generation) => boolean;
  /** a failed fsync: what reached the disk is unknown */
  readonly onFatal: (error: Error) => void;
}

export class StagedFiles {
  readonly #options: StagedFilesOptions;
  /** pids are used again, so a random part tells this life of the process from others */
  readonly #processToken = `${process.pid}-${randomBytes(6).toString('hex')}`;
  readonly #active = new Set<string>();
  #created = 0;

  constructor(options: StagedFilesOptions) {
    this.#options = options;
  }

  async create(generation: Generation): Promise<StagedFile> {
    const { layout, files } = this.#options;
    const path = layout.stagedPath(generation, this.#processToken, ++this.#created);
    this.#active.add(path);
    try {
      const file = await files.create(path);
      return new StagedFile(file, path, generation, this.#options, () => this.#active.delete(path));
    } catch (error) {
      this.#active.delete(path);
      throw error;
    }
  }

  /**
   * Resolves what interrupted uploads left: of one that was never recorded as complete nothing stays, so that its URL can be
   * used again; of a complete one only the staged name goes. `isAlone`: no other process has this store open.
   */
  async resolveLeftovers(isAlone: boolean): Promise<void> {
    const { layout, files } = this.#options;
    const names = await files.list(layout.incoming);
    let resolved = 0;
    for (const name of names) {
      const staged = parseStagedName(name);
      if (staged === undefined || !this.#isLeftover(name, staged, isAlone)) continue;
      await this.#resolve(join(layout.incoming, name), staged.generation);
      if (++resolved === LEFTOVERS_PER_SWEEP_MAX && !isAlone) return;
    }
  }

  #isLeftover(name: string, staged: StagedName, isAlone: boolean): boolean {
    if (staged.processToken === this.#processToken) {
      return !this.#active.has(join(this.#options.layout.incoming, name));
    }
    return isAlone || staged.pid === process.pid || !isProcessAlive(staged.pid);
  }

  async #resolve(path: string, generation: Generation): Promise<void> {
    const { files, layout, isFinished } = this.#options;
    // Taking it over by a rename lets exactly one process resolve it.
    const taken = layout.stagedPath(generation, this.#processToken, ++this.#created);
    this.#active.add(taken);
    try {
      await files.rename(path, taken);
      const object = layout.objectOf(generation);
      if (!isFinished(generation) && (await this.#isSameFile(taken, object))) {
        await files.remove(object);
        await files.syncFolder(layout.shardOf(generation));
      }
      await files.remove(taken);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    } finally {
      this.#active.delete(taken);
    }
  }

  /** Another upload of the generation may have sealed its own file since. */
  async #isSameFile(staged: string, object: string): Promise<boolean> {
    const { files } = this.#options;
    const identity = await files.findIdentity(staged);
    return identity !== undefined && identity === (await files.findIdentity(object));
  }
}

export class StagedFile {
  readonly #file: OpenFile;
  readonly #path: string;
  readonly #generation: Generation;
  readonly #options: StagedFilesOptions;
  readonly #deactivate: () => void;
  #isOpen = true;
  #isSealed = false;

  constructor(
    file: OpenFile,
    path: string,
    generation: Generation,
    options: StagedFilesOptions,
    deactivate: () => void,
  ) {
    this.#file = file;
    this.#path = path;
    this.#generation = generation;
    this.#options = options;
    this.#deactivate = deactivate;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    return this.#file.write(bytes, position);
  }

  /** False when the key is taken. */
  async seal(): Promise<boolean> {
    const { files, layout } = this.#options;
    await this.#sync(() => this.#file.sync());
    await this.#close();
    try {
      await files.link(this.#path, layout.objectOf(this.#generation));
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    }
    this.#isSealed = true;
    await this.#sync(() => files.syncFolder(layout.shardOf(this.#generation)));
    return true;
  }

  /** Removes the staged name, unless it is still the intent of a sealed object that has no record. */
  async release(): Promise<void> {
    try {
      await this.#close();
      if (this.#isSealed && !this.#options.isFinished(this.#generation)) return;
      await this.#options.files.remove(this.#path);
    } finally {
      this.#deactivate();
    }
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.close();
  }

  async #sync(sync: () => Promise<void>): Promise<void> {
    try {
      await sync();
    } catch (error) {
      this.#options.onFatal(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }
}

function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}
