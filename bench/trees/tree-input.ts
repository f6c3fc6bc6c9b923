/** The input of a push: a folder of many files, or one large file; the same bytes in every run, and one small change to make. */
import { createCipheriv } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

export interface TreeInput {
  /** the folder that is pushed */
  readonly folder: string;
  readonly files: number;
  readonly bytes: number;
  /** nodes from the root to the file that `edit` changes, that file included; index nodes not counted */
  readonly depth: number;
  /** Makes the small change; not the same one in every round. */
  edit(round: number): void;
  /** Takes it back. */
  reset(): void;
}

const FILES_PER_FOLDER = 25;
const FOLDERS_PER_FOLDER = 20;
/** As in a source tree: most are small, few are large. Sizes are spread evenly over the powers from here … */
const FILE_BYTES_MIN = 200;
/** … to e^6.5 times as much, 130 KB; 20 KB on average. */
const FILE_SIZE_POWER = 6.5;
const POOL_BYTES = 16 * 1024 * 1024;
const PIECE_BYTES = 8 * 1024 * 1024;
const MIB = 2 ** 20;

/** Root, two levels of folders, files. `smallOnly`: files of 64 bytes, for what depends on their number alone. */
export function makeManyFiles(folder: string, files: number, smallOnly = false): TreeInput {
  const random = createRandomBytes();
  const pool = random(POOL_BYTES);
  const choices = new DataView(random(files * 8).buffer);
  let bytes = 0;
  const pathOf = (index: number): string => {
    const inner = Math.floor(index / FILES_PER_FOLDER);
    const outer = Math.floor(inner / FOLDERS_PER_FOLDER);
    return join(folder, `part-${outer}`, `group-${inner % FOLDERS_PER_FOLDER}`, `file-${index}.txt`);
  };
  for (let index = 0; index < files; index++) {
    const path = pathOf(index);
    if (index % FILES_PER_FOLDER === 0) mkdirSync(join(path, '..'), { recursive: true });
    const size = smallOnly ? 64 : sizeAt(choices.getUint32(index * 8));
    const start = choices.getUint32(index * 8 + 4) % (POOL_BYTES - size);
    const head = Buffer.from(`file ${index}\n`);
    writeFileSync(path, Buffer.concat([head, pool.subarray(start, start + size)]));
    bytes += head.length + size;
  }
  const edited = pathOf(Math.floor(files / 2));
  const original = readFileSync(edited);
  return {
    folder,
    files,
    bytes,
    depth: 4,
    edit: (round) =>
      writeFileSync(edited, Buffer.concat([original, Buffer.from(`one more line, ${round}\n`)])),
    reset: () => writeFileSync(edited, original),
  };
}

/** Where a machine with this project on it has many files, the first ones first. */
const REAL_FOLDERS = ['/usr/share/doc', join(import.meta.dir, '..', '..', 'node_modules')];
const REAL_FILE_BYTES_MAX = 8 * 1024 * 1024;

/** Copies of regular files of this machine, in folders as they are there. Throws if it has fewer. */
export function makeRealFiles(folder: string, files: number): TreeInput {
  const copied: string[] = [];
  let bytes = 0;
  for (const source of REAL_FOLDERS) {
    // One after the other, by name: the same machine gives the same tree.
    const entries = readdirSync(source, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
    // No source fills the tree by itself.
    const room = Math.ceil((files - copied.length) / (source === REAL_FOLDERS.at(-1) ? 1 : 2));
    for (const path of entries.slice(0, room)) {
      const content = readFileSync(path);
      if (content.length > REAL_FILE_BYTES_MAX) continue;
      const target = join(folder, path.slice(1));
      mkdirSync(join(target, '..'), { recursive: true });
      writeFileSync(target, content);
      copied.push(target);
      bytes += content.length;
    }
  }
  if (copied.length < files / 2) {
    throw new Error(`This machine has only ${copied.length} files under ${REAL_FOLDERS.join(' and ')}.`);
  }
  const edited = copied[Math.floor(copied.length / 2)] as string;
  const original = readFileSync(edited);
  return {
    folder,
    files: copied.length,
    bytes,
    depth: edited.slice(folder.length).split('/').length,
    edit: (round) =>
      writeFileSync(edited, Buffer.concat([original, Buffer.from(`one more line, ${round}\n`)])),
    reset: () => writeFileSync(edited, original),
  };
}

function sizeAt(choice: number): number {
  return Math.floor(FILE_BYTES_MIN * Math.exp((choice / 2 ** 32) * FILE_SIZE_POWER));
}

/**
 * A folder with one large file, and a tiny one that is newer: borg trusts no file that is as new as the newest of all, so
 * it would read the large one again each time. Both states of the large file lie ready and are put in place by a rename.
 */
export function makeLargeFile(folder: string, mebibytes: number): TreeInput {
  const aside = `${folder}-aside`;
  for (const path of [folder, aside]) mkdirSync(path, { recursive: true });
  const random = createRandomBytes();
  const large = join(folder, 'large.bin');
  const original = join(aside, 'original.bin');
  const changed = join(aside, 'changed.bin');
  const files = [openSync(large, 'w'), openSync(changed, 'w')];
  const bytes = mebibytes * MIB;
  for (let written = 0; written < bytes; written += PIECE_BYTES) {
    const piece = random(Math.min(PIECE_BYTES, bytes - written));
    // A few bytes in the middle: everything behind them moves.
    const isMiddle = written <= bytes / 2 && bytes / 2 < written + PIECE_BYTES;
    for (const file of files) writeSync(file, piece);
    if (isMiddle) writeSync(files[1] as number, Buffer.from('seven b'));
  }
  for (const file of files) closeSync(file);
  writeFileSync(join(folder, 'newer.txt'), 'newer\n');
  let isChanged = false;
  return {
    folder,
    files: 2,
    bytes,
    depth: 2,
    edit: () => {
      if (isChanged) return;
      renameSync(large, original);
      renameSync(changed, large);
      isChanged = true;
      copyFileSync(join(folder, 'newer.txt'), join(aside, 'newer.txt'));
      renameSync(join(aside, 'newer.txt'), join(folder, 'newer.txt'));
    },
    reset: () => {
      if (!isChanged) return;
      renameSync(large, changed);
      renameSync(original, large);
      isChanged = false;
    },
  };
}

/** Bytes that nothing can compress; the same sequence in every process. */
function createRandomBytes(): (length: number) => Uint8Array<ArrayBuffer> {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16));
  const zeros = new Uint8Array(POOL_BYTES);
  return (length) => {
    const source = length <= zeros.length ? zeros.subarray(0, length) : new Uint8Array(length);
    return Uint8Array.from(cipher.update(source));
  };
}
