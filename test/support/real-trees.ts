/** Folders that nobody made for a test: copied from this machine, and edited as people and programs edit. */
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { SeededRandom } from './seeded-random.ts';
import { ROOT } from './server-process.ts';

/** The most that a copy takes of a folder, so that a test ends. */
const COPIED_BYTES_MAX = 16 * 1024 * 1024;
const COPIED_ENTRIES_MAX = 500;

/** Folders of this project, which are always there; others only if the machine has them. */
const OWN_FOLDERS = [join(ROOT, '.git'), join(ROOT, 'node_modules')];
const MACHINE_FOLDERS = ['/etc'];

export interface RealFolder {
  readonly name: string;
  readonly path: string;
}

export function findRealFolders(): readonly RealFolder[] {
  return [...OWN_FOLDERS, ...MACHINE_FOLDERS.filter((path) => existsSync(path))].map((path) => ({
    name: basename(path),
    path,
  }));
}

/** Copies what can be read of a folder, names byte for byte; of a large one a part that `random` picks. */
export function copyRealFolder(from: string, to: string, random: SeededRandom): void {
  let bytesLeft = COPIED_BYTES_MAX;
  let entriesLeft = COPIED_ENTRIES_MAX;
  const copy = (source: Buffer, target: Buffer): void => {
    const stats = lstatSync(source);
    if (stats.isSymbolicLink()) symlinkSync(readlinkSync(source, { encoding: 'buffer' }), target);
    else if (stats.isDirectory()) {
      mkdirSync(target);
      for (const name of shuffle(readNames(source), random)) {
        if (entriesLeft === 0) return;
        entriesLeft -= 1;
        copy(joinBytes(source, name), joinBytes(target, name));
      }
    } else if (stats.isFile() && stats.size <= bytesLeft) {
      bytesLeft -= stats.size;
      copyIfReadable(source, target);
    }
  };
  copy(Buffer.from(from), Buffer.from(to));
}

/** Changes about `count` things below `folder`: contents, lengths, names, modes, links, what is there at all. */
export function editFolder(folder: string, random: SeededRandom, count: number): void {
  for (let edit = 0; edit < count; edit += 1) {
    const all = listBelow(Buffer.from(folder));
    const path = random.pick(all);
    if (path === undefined) return;
    editEntry(path, random, edit);
  }
  const added = join(folder, 'added by the test');
  mkdirSync(added, { recursive: true });
  writeFileSync(join(added, 'empty'), '');
  writeFileSync(join(added, 'large'), Buffer.alloc(3_500_000, random.below(256)));
}

function editEntry(path: Buffer, random: SeededRandom, edit: number): void {
  const stats = lstatSync(path);
  const renamed = Buffer.concat([path, Buffer.from(`.renamed-${edit}`)]);
  if (stats.isSymbolicLink()) {
    unlinkSync(path);
    symlinkSync(`elsewhere-${edit}`, path);
  } else if (stats.isDirectory()) {
    if (random.chance(0.2)) rmSync(path, { recursive: true });
    else renameSync(path, renamed);
  } else {
    const edits = [
      () => appendFileSync(path, `appended ${edit}`),
      () => truncateSync(path, random.below(stats.size + 1)),
      () => overwriteInside(path, stats.size, random),
      () => chmodSync(path, stats.mode ^ 0o100),
      () => renameSync(path, renamed),
      () => unlinkSync(path),
    ];
    random.pick(edits)?.();
  }
}

/** As a database writes: some bytes in the middle change, and the length stays. */
function overwriteInside(path: Buffer, size: number, random: SeededRandom): void {
  const content = readFileSync(path);
  const at = random.below(size + 1);
  content.fill(random.below(256), at, Math.min(size, at + 100));
  writeFileSync(path, content);
}

function listBelow(folder: Buffer): Buffer[] {
  return readNames(folder).flatMap((name) => {
    const path = joinBytes(folder, name);
    return lstatSync(path).isDirectory() ? [path, ...listBelow(path)] : [path];
  });
}

function readNames(folder: Buffer): Buffer[] {
  return readdirSync(folder, { encoding: 'buffer' });
}

function joinBytes(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from('/'), name]);
}

function copyIfReadable(source: Buffer, target: Buffer): void {
  try {
    copyFileSync(source, target);
    chmodSync(target, statSync(source).mode | 0o600);
  } catch (error) {
    // Entries that this user may not read, or that vanished meanwhile, are not copied.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOENT') throw error;
  }
}

function shuffle<T>(items: readonly T[], random: SeededRandom): T[] {
  const shuffled = [...items];
  for (let last = shuffled.length - 1; last > 0; last -= 1) {
    const other = random.below(last + 1);
    [shuffled[last], shuffled[other]] = [shuffled[other] as T, shuffled[last] as T];
  }
  return shuffled;
}
