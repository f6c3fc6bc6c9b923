/**
 * Reads what a program will most likely ask for next. Programs that go through a tree (`find`, `cp -a`, `grep -r`, `tar`) take it in the
 * order of its ordinals, and large files from their beginning. Nothing is read ahead for those that do neither.
 */
import { CHUNK_BYTES_MIN, Kept, type TreeItem } from '@holdfast/client/internal';
import { type MountedTree, wantChild, wantFolder } from './mounted-tree.ts';
import { findChildAt, type WantedPart } from './tree-parts.ts';

/** A step over more entries is no step of the same walk. */
const GAPS_MAX = { files: 256, folders: 8192 } as const;
const WINDOW_MIN = 8;

type Kind = keyof typeof GAPS_MAX;

interface Walk {
  readonly tree: MountedTree;
  readonly kind: Kind;
  last: number;
  steps: number;
  /** of how many more steps something was asked for */
  ahead: number;
  isAsking: boolean;
}

interface Wanted {
  readonly folders: WantedPart[];
  readonly files: TreeItem[];
  count: number;
  bytes: number;
  lookedAt: number;
}

interface Run {
  end: number;
  /** bytes that were read one after the other */
  length: number;
}

export class ReadAhead {
  readonly #walks: Walk[] = [];
  /** of large files, by their hashes */
  readonly #runs = new Kept<Run>(64);
  #comingBytes = 0;

  /** A folder was listed, or a small file read. */
  step(tree: MountedTree, kind: Kind, ordinal: number): void {
    const walk = this.#findWalk(tree, kind, ordinal);
    if (walk.last === ordinal) return;
    walk.last = ordinal;
    walk.steps += 1;
    walk.ahead -= 1;
    const window = Math.min(WINDOW_MIN << Math.min(walk.steps, WINDOW_MIN), 512);
    // One step is no walk. The next part is asked for when half of the window is left.
    if (walk.steps < 2 || walk.isAsking || walk.ahead > window / 2) return;
    walk.isAsking = true;
    const done = (): void => {
      walk.isAsking = false;
    };
    // A tree that is too deep to be looked at is read as it is asked for.
    this.#askAhead(walk, window).then(done, done);
  }

  #findWalk(tree: MountedTree, kind: Kind, ordinal: number): Walk {
    const index = this.#walks.findIndex(
      (each) =>
        each.tree === tree &&
        each.kind === kind &&
        each.last <= ordinal &&
        ordinal - each.last <= GAPS_MAX[kind],
    );
    const [found] = index === -1 ? [] : this.#walks.splice(index, 1);
    const walk = found ?? { tree, kind, last: -1, steps: 0, ahead: 0, isAsking: false };
    this.#walks.push(walk);
    // Eight programs are followed at a time.
    if (this.#walks.length > 8) this.#walks.shift();
    return walk;
  }

  /** Folders that come name what is in them, so it goes on until the window is full. */
  async #askAhead(walk: Walk, window: number): Promise<void> {
    const { tree, kind } = walk;
    for (let round = 0; round < WINDOW_MIN; round += 1) {
      const wanted: Wanted = { folders: [], files: [], count: window, bytes: 4 * 1024 * 1024, lookedAt: 0 };
      collect(tree, kind, wantFolder(tree.root), 1, walk.last + 1, wanted);
      walk.ahead = window - wanted.count;
      const { folders, files } = wanted;
      const reads = [
        ...folders.map((folder) => tree.parts.readFolder(folder)),
        ...files.map((item) =>
          item.kind === 'symlink' ? tree.parts.readLink(item) : tree.parts.readSmall(item),
        ),
      ];
      // A failure is told to the program that asks for it.
      await Promise.allSettled(reads);
      if (folders.length === 0) return;
    }
  }

  /** A piece of a large file was read. */
  run(tree: MountedTree, item: TreeItem, start: number, end: number): void {
    const run = this.#runs.find(item.hash) ?? { end: 0, length: 0 };
    this.#runs.keep(item.hash, run);
    // The kernel asks for a few pieces at once, not always in order.
    const isNext = Math.abs(start - run.end) <= 1024 * 1024;
    run.length = isNext ? run.length + end - start : 0;
    run.end = isNext ? Math.max(run.end, end) : end;
    // One large file has a window of 8 MiB.
    const length = Math.min(run.length, 8 * 1024 * 1024);
    if (length >= CHUNK_BYTES_MIN) void this.#readOn(tree, item, run.end, run.end + length);
  }

  async #readOn(tree: MountedTree, item: TreeItem, start: number, end: number): Promise<void> {
    try {
      for await (const { hash, level, bytes } of tree.chunks(item, start, end)) {
        // All large files together may have 24 MiB on their way.
        if (this.#comingBytes + bytes > 24 * 1024 * 1024) return;
        if (tree.parts.hasFile(hash, { level, bytes })) continue;
        this.#comingBytes += bytes;
        const read = tree.parts.readFile(hash, { level, bytes });
        const done = (): void => {
          this.#comingBytes -= bytes;
        };
        read.then(done, done);
      }
    } catch {
      // A failure is told to the program that asks for it.
    }
  }
}

/** The parts from ordinal `from` on that are not there yet. `first` is the ordinal of the first entry in the part. */
function collect(
  tree: MountedTree,
  kind: Kind,
  part: WantedPart,
  first: number,
  from: number,
  wanted: Wanted,
): void {
  if (isFull(wanted)) return;
  const read = tree.parts.findFolder(part);
  if (read === undefined) {
    wanted.folders.push(part);
    wanted.count -= 1;
    return;
  }
  const { starts } = read;
  for (let at = Math.max(0, findChildAt(read, from - first)); at < read.children.length; at += 1) {
    if (isFull(wanted)) return;
    const begin = first + (starts[at] ?? 0);
    wanted.lookedAt += 1;
    if (read.type === 'index') {
      collect(tree, kind, wantChild(read, at, part), begin, from, wanted);
      continue;
    }
    const entry = read.children[at] as TreeItem;
    if (entry.kind === 'directory') {
      if (kind === 'folders' && begin >= from) wanted.count -= 1;
      if (begin + entry.entryCount >= from) collect(tree, kind, wantFolder(entry), begin + 1, from, wanted);
    } else if (kind === 'files' && begin >= from) collectFile(entry, wanted);
  }
}

function isFull({ count, bytes, lookedAt }: Wanted): boolean {
  return count <= 0 || bytes <= 0 || lookedAt >= 16 * 1024;
}

function collectFile(item: TreeItem, wanted: Wanted): void {
  if (item.bytes > CHUNK_BYTES_MIN) return;
  wanted.count -= 1;
  wanted.bytes -= item.bytes;
  wanted.files.push(item);
}
