/** Files that become objects, and the removal of those whose upload was interrupted. */

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Generation } from '../../core/model.ts';
import { orIfDamaged, StoreUnavailable } from '../../core/store-failure.ts';
import type { FindKnown } from '../../core/upkeep-ports.ts';
import { codeOf } from '../../error-code.ts';
import { type DurableNamesOptions, removeObject, syncOrEnd } from './durable-names.ts';
import type { OpenFile } from './files.ts';
import { ANY_SPACE, parseStagedName, type StagedName } from './object-layout.ts';

/** Whether a process with this id runs, ours to signal or not. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
  return !isZombie(pid);
}

/** A process that has ended keeps its id until its parent reads its exit code: for seconds, in some containers indefinitely. */
function isZombie(pid: number): boolean {
  if (process.platform !== 'linux') return false;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the state is in parentheses and may contain any character.
    return 'ZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

interface StagedFilesOptions extends DurableNamesOptions {
  /** whether the PUT of this generation was recorded as complete */
  readonly isFinished: (generation: Generation) => boolean;
}

interface Leftover {
  readonly path: string;
  readonly generation: Generation;
}

export class StagedFiles {
  readonly #options: StagedFilesOptions;
  /** pids are used again, so a random part tells this process from earlier ones */
  readonly #processToken = `${process.pid}-${randomBytes(6).toString('hex')}`;
  readonly #active = new Set<string>();
  #created = 0;
  #sweptTo = '';

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

  /** Call while no other process has the store open. An upload never recorded as complete goes with its object, else only its name. */
  async resolveAll(): Promise<void> {
    for (const { path, generation } of await this.#findLeftovers(true)) {
      // While it is unknown whether an upload is finished, its file stays.
      await orIfDamaged(
        () => this.#resolve(path, generation, !this.#options.isFinished(generation)),
        () => undefined,
      );
    }
  }

  /** The same while serving, bounded. An object whose generation has an open upload stays: a lease or a PUT may use it. */
  async sweep(findKnown: FindKnown): Promise<void> {
    const leftovers = await this.#findNextLeftovers();
    if (leftovers.length === 0) return;
    const known = await findKnown(leftovers.map(({ generation }) => ({ spaceKey: ANY_SPACE, generation })));
    let failure: unknown;
    for (const { path, generation } of leftovers) {
      try {
        const isFinished = this.#options.isFinished(generation);
        if (known.has(generation) && !isFinished && (await this.#isSealed(path, generation))) continue;
        await this.#resolve(path, generation, !isFinished);
      } catch (error) {
        // The sweep continues with the others; a later sweep tries this one again.
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  /** Each sweep resumes where the last one stopped, so that leftovers that must stay do not block the others. */
  async #findNextLeftovers(): Promise<readonly Leftover[]> {
    const found = (await this.#findLeftovers(false)).sort((one, other) => (one.path < other.path ? -1 : 1));
    const start = found.findIndex(({ path }) => path > this.#sweptTo);
    const leftovers = found.slice(Math.max(start, 0), Math.max(start, 0) + 256);
    this.#sweptTo = leftovers.at(-1)?.path ?? '';
    return leftovers;
  }

  async #findLeftovers(isAlone: boolean): Promise<Leftover[]> {
    const { layout, files } = this.#options;
    const leftovers: Leftover[] = [];
    for (const name of await files.list(layout.incoming)) {
      const staged = parseStagedName(name);
      if (staged === undefined || !this.#isLeftover(name, staged, isAlone)) continue;
      leftovers.push({ path: join(layout.incoming, name), generation: staged.generation });
    }
    return leftovers;
  }

  #isLeftover(name: string, staged: StagedName, isAlone: boolean): boolean {
    if (staged.processToken === this.#processToken) {
      return !this.#active.has(join(this.#options.layout.incoming, name));
    }
    return isAlone || staged.pid === process.pid || !isProcessAlive(staged.pid);
  }

  async #resolve(path: string, generation: Generation, isUnfinished: boolean): Promise<void> {
    const { files, layout } = this.#options;
    // Renaming the file makes sure that exactly one process resolves it.
    const taken = layout.stagedPath(generation, this.#processToken, ++this.#created);
    this.#active.add(taken);
    try {
      await files.rename(path, taken);
      if (isUnfinished && (await this.#isSealed(taken, generation))) {
        await removeObject(this.#options, generation);
      }
      await files.remove(taken);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    } finally {
      this.#active.delete(taken);
    }
  }

  /** Whether the object is this very file; another upload of the generation may have sealed its own. */
  async #isSealed(staged: string, generation: Generation): Promise<boolean> {
    const { files, layout } = this.#options;
    const identity = await files.findIdentity(staged);
    return identity !== undefined && identity === (await files.findIdentity(layout.objectOf(generation)));
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

  /** Resolves whether this file is the object now: false if the key is taken. Durable either way. */
  async seal(): Promise<boolean> {
    const { files, layout } = this.#options;
    await syncOrEnd(this.#options, () => this.#file.sync());
    // No write is left, so closing the file does not use the disk.
    this.#isOpen = false;
    this.#file.closeNow();
    // The folder is opened before the link: a failure here changes nothing. After the link the outcome would be unknown.
    const folder = await files.openFolder(layout.shardOf(this.#generation));
    try {
      await this.#link();
      await syncOrEnd(this.#options, () => folder.sync());
    } finally {
      folder.closeNow();
    }
    return this.#isSealed;
  }

  async #link(): Promise<void> {
    const { files, layout } = this.#options;
    try {
      await files.link(this.#path, layout.objectOf(this.#generation));
      this.#isSealed = true;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }

  /** Removes the staged name, unless it is the intent of a sealed object without a record. If the disk refuses, the sweep does it. */
  release(): Promise<void> {
    return this.#end(async () => {
      if (this.#isSealed && !this.#options.isFinished(this.#generation)) return;
      await this.#removeName();
    });
  }

  /** The same, and takes back a sealed object that has no record: the next upload of the generation may bring other bytes. */
  undo(): Promise<void> {
    return this.#end(async () => {
      const isUnfinished = this.#isSealed && !this.#options.isFinished(this.#generation);
      if (isUnfinished) await removeObject(this.#options, this.#generation);
      await this.#removeName();
    });
  }

  /** Removes the staged name. A sealed object stays. */
  drop(): Promise<void> {
    return this.#end(() => this.#removeName());
  }

  async #end(work: () => Promise<void>): Promise<void> {
    try {
      await this.#close();
      await work();
    } catch (error) {
      if (codeOf(error) === undefined && !(error instanceof StoreUnavailable)) throw error;
    } finally {
      this.#deactivate();
    }
  }

  #removeName(): Promise<void> {
    return this.#options.files.remove(this.#path);
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.close();
  }
}
