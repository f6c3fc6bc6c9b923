/** What a disk may hold when the power fails at one moment of a trace. */
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import type { DiskSteps, Inode, Step } from './disk-steps.ts';

export interface Loss {
  /**
   * `strict` loses every name whose folder was not synced. `journaling` keeps the order of names and sizes: an fsync makes all of them
   * durable up to the last that concerns its file.
   */
  readonly disk: 'strict' | 'journaling';
  /** of writes that were not synced */
  readonly writes: 'none' | 'all' | 'first' | 'last' | 'torn-512' | 'torn-4096';
  /** of names and sizes that were not synced */
  readonly names: 'none' | 'all' | 'some';
}

type Write = Extract<Step, { kind: 'write' }>;
type Name = Extract<Step, { kind: 'name' }>;
type Size = Extract<Step, { kind: 'size' }>;

/** Of a line of the trace: calls that have begun by then may have reached the disk. */
export class Moment {
  readonly #at: number;
  readonly #disk: Loss['disk'];
  readonly #steps: readonly Step[];
  /** by file or folder: what was complete by then is durable */
  readonly #synced = new Map<Inode, number>();
  #journaled = -1;

  /** `isSync` false: this fsync is left out */
  constructor(
    steps: readonly Step[],
    at: number,
    disk: Loss['disk'],
    isSync: (inode: Inode) => boolean = () => true,
  ) {
    this.#at = at;
    this.#disk = disk;
    this.#steps = steps.filter(({ start }) => start <= at);
    const lastMeta = new Map<Inode, { ends: number[] }>();
    const note = (inode: Inode, end: number): void => {
      const known = lastMeta.get(inode);
      if (known === undefined) lastMeta.set(inode, { ends: [end] });
      else known.ends.push(end);
    };
    for (const step of this.#steps) {
      if (step.kind === 'name') {
        note(step.folder, step.end);
        if (step.target !== undefined) note(step.target, step.end);
      } else if (step.kind === 'write' || step.kind === 'size') note(step.inode, step.end);
      else if (step.kind === 'sync' && step.end <= at && isSync(step.inode)) {
        this.#synced.set(step.inode, Math.max(this.#synced.get(step.inode) ?? -1, step.start));
        const ends = lastMeta.get(step.inode)?.ends.filter((end) => end <= step.start) ?? [];
        this.#journaled = Math.max(this.#journaled, ...ends.slice(-1));
      }
    }
  }

  /** Writes what the disk holds then into a new folder. */
  make(
    { root }: DiskSteps,
    target: string,
    { writes, names }: Omit<Loss, 'disk'>,
    random: SeededRandom,
  ): void {
    const keptNames = this.#chooseNames(names, random);
    const pieces = this.#chooseWrites(writes, random);
    const folders = new Map<Inode, Map<string, Inode>>();
    for (const { folder, name, target: inode } of keptNames) {
      const entries = folders.get(folder) ?? new Map<string, Inode>();
      folders.set(folder, entries);
      if (inode === undefined) entries.delete(name);
      else entries.set(name, inode);
    }
    const contents = new Map<Inode, Content>();
    for (const piece of pieces) {
      const content = contents.get(piece.inode) ?? new Content(piece.inode.initial);
      contents.set(piece.inode, content);
      if (piece.kind === 'size') content.resize(piece.size);
      else content.write(piece.offset, piece.bytes);
    }
    writeFolder(target, root, { folders, contents });
  }

  #isDurable(step: Write | Size | Name): boolean {
    const { kind, end } = step;
    if (kind !== 'write' && this.#disk === 'journaling') return end <= this.#journaled;
    return end <= (this.#synced.get(kind === 'name' ? step.folder : step.inode) ?? -1);
  }

  #chooseNames(how: Loss['names'], random: SeededRandom): Name[] {
    const all = this.#steps.filter((step) => step.kind === 'name');
    const kept = new Set<Name>(all.filter((step) => this.#isDurable(step)));
    const pending = all.filter((step) => !kept.has(step));
    if (how === 'all') return all;
    if (how === 'none') return all.filter((step) => kept.has(step));
    // In a journal, all up to one step; else each by itself, but in order for one name.
    const lastGroup = pending[random.below(pending.length)]?.group ?? 0;
    const lost = new Set<string>();
    const lostGroups = new Set<number>();
    for (const step of pending) {
      const key = `${step.folder.id}/${step.name}`;
      const isMoved = pending.some((each) => each.group === step.group && each.folder !== step.folder);
      const isLost =
        this.#disk === 'journaling'
          ? step.group > lastGroup
          : lost.has(key) || (lostGroups.has(step.group) && !isMoved) || random.chance(0.5);
      if (!isLost) kept.add(step);
      else {
        lost.add(key);
        lostGroups.add(step.group);
      }
    }
    return all.filter((step) => kept.has(step) && (this.#disk === 'journaling' || isWhole(step, all, kept)));
  }

  #chooseWrites(how: Loss['writes'], random: SeededRandom): (Write | Size)[] {
    const all = this.#steps.filter((step) => step.kind === 'write' || step.kind === 'size');
    const pending = all.filter((step) => !this.#isDurable(step));
    const border = pending[random.below(pending.length)]?.end ?? this.#at;
    return all.flatMap((step) => {
      if (how === 'all' || this.#isDurable(step)) return [step];
      if (how === 'none') return [];
      if (how === 'first' || how === 'last') {
        const isKept = how === 'first' ? step.end < border : step.end > border;
        if (step.end === border && step.kind === 'write') return tear(step, 512, random);
        return isKept ? [step] : [];
      }
      if (step.kind === 'size') return random.chance(0.5) ? [step] : [];
      return tear(step, how === 'torn-512' ? 512 : 4096, random);
    });
  }
}

/** A rename within one folder is one step of it. */
function isWhole(step: Name, all: readonly Name[], kept: ReadonlySet<Name>): boolean {
  return all.every((each) => each.group !== step.group || each.folder !== step.folder || kept.has(each));
}

/** The sectors of a write that reached the disk. */
function tear(step: Write, unit: number, random: SeededRandom): Write[] {
  const kept: Write[] = [];
  const { offset, bytes } = step;
  for (let from = offset; from < offset + bytes.length; ) {
    const to = Math.min(offset + bytes.length, (Math.floor(from / unit) + 1) * unit);
    if (random.chance(0.5))
      kept.push({ ...step, offset: from, bytes: bytes.subarray(from - offset, to - offset) });
    from = to;
  }
  return kept;
}

class Content {
  #buffer: Buffer;
  #length: number;

  constructor(initial: Buffer) {
    this.#buffer = Buffer.from(initial);
    this.#length = initial.length;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  resize(length: number): void {
    if (length > this.#buffer.length) {
      const grown = Buffer.alloc(2 * length);
      grown.set(this.bytes);
      this.#buffer = grown;
    } else if (length > this.#length) this.#buffer.fill(0, this.#length, length);
    this.#length = length;
  }

  write(offset: number, bytes: Buffer): void {
    this.resize(Math.max(this.#length, offset + bytes.length));
    this.#buffer.set(bytes, offset);
  }
}

interface Disk {
  readonly folders: ReadonlyMap<Inode, ReadonlyMap<string, Inode>>;
  readonly contents: ReadonlyMap<Inode, Content>;
}

function writeFolder(path: string, folder: Inode, disk: Disk): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  for (const [name, inode] of disk.folders.get(folder) ?? []) {
    const each = join(path, name);
    if (inode.kind === 'folder') writeFolder(each, inode, disk);
    else if (inode.kind === 'link') symlinkSync(inode.initial.toString(), each);
    else writeFileSync(each, disk.contents.get(inode)?.bytes ?? inode.initial, { mode: 0o600 });
  }
}

/** What differs between a folder and the same one rebuilt of a trace. Neither sockets nor the shared memory of SQLite are written by calls. */
export function compareFolders(real: string, made: string): string[] {
  const names = new Set([...readdirSync(real), ...readdirSync(made)]);
  return [...names].flatMap((name) => {
    const [one, two] = [real, made].map((path) => statSync(join(path, name), { throwIfNoEntry: false }));
    if (one?.isSocket() === true) return [];
    if (one?.isDirectory() !== two?.isDirectory() || (one === undefined) !== (two === undefined))
      return [`${name}: ${one === undefined ? 'not there' : 'only there'}`];
    if (one?.isDirectory() === true)
      return compareFolders(join(real, name), join(made, name)).map((each) => `${name}/${each}`);
    if (name.endsWith('-shm')) return [];
    const isSame = Buffer.compare(readFileSync(join(real, name)), readFileSync(join(made, name))) === 0;
    return isSame ? [] : [`${name}: other bytes`];
  });
}
