/** A file that is at hand whole: written under a name of its own, which then becomes its final name in one step. */
import { closeSync, fsyncSync, lstatSync, renameSync, unlinkSync, writeSync } from 'node:fs';
import { openIn, renameExclusivelyIn } from '../folder-calls.ts';
import { CREATE_FLAGS, createPartial, modeOf } from './partial-names.ts';
import { setTimes } from './set-times.ts';
import { fillSparsely } from './sparse.ts';
import { pathOf, type TargetFolder } from './target-folder.ts';

export interface SmallFile {
  readonly folder: TargetFolder;
  readonly partialName: string;
  readonly name: Uint8Array;
  readonly isExecutable: boolean;
  readonly mtimeNs: bigint | undefined;
  readonly fsync: boolean;
  /** Its blocks of zeros become holes; only where the pull itself writes it. */
  readonly isSparse?: boolean | undefined;
}

/**
 * `exclusive`: the system looked at what stands there and gave the name in one step. `looked`: the name was given right after that
 * look. `appeared`: it was not given, because something stands there.
 */
export type Placed = 'exclusive' | 'looked' | 'appeared';

/** Gives a file that is whole its final name. */
export type Place = (folder: TargetFolder, partialName: Uint8Array, name: Uint8Array) => Placed;

/** Nothing of the file is left when it was not placed. Throws what the system says. `sync` is another one in tests. */
export function writeSmallFile(
  file: SmallFile,
  content: Uint8Array,
  place: Place = placeNew,
  sync: (descriptor: number) => void = fsyncSync,
): Placed {
  const { folder, name, mtimeNs } = file;
  const partialName = Buffer.from(file.partialName);
  let placed: Placed = 'appeared';
  try {
    const descriptor = create(folder, partialName, file);
    try {
      if (file.isSparse) fillSparsely(descriptor, content);
      else for (let done = 0; done < content.length; ) done += writeSync(descriptor, content, done);
      if (file.fsync) sync(descriptor);
      if (mtimeNs !== undefined) setTimes(pathOf(folder, partialName), mtimeNs);
      placed = place(folder, partialName, name);
    } finally {
      closeSync(descriptor);
    }
  } finally {
    if (placed === 'appeared') unlinkIfThere(pathOf(folder, partialName));
  }
  return placed;
}

/** Gives an entry of a folder a name that nothing there may have. */
export function placeNew(folder: TargetFolder, partialName: Uint8Array, name: Uint8Array): Placed {
  const { descriptor } = folder;
  if (descriptor !== undefined && renameExclusivelyIn(descriptor, partialName, name)) return 'exclusive';
  const at = pathOf(folder, name);
  if (lstatSync(at, { throwIfNoEntry: false }) !== undefined) return 'appeared';
  renameSync(pathOf(folder, partialName), at);
  return 'looked';
}

export function unlinkIfThere(at: Buffer): void {
  try {
    unlinkSync(at);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
}

function create(folder: TargetFolder, name: Uint8Array, file: SmallFile): number {
  const { descriptor } = folder;
  const made = descriptor === undefined ? undefined : openIn(descriptor, name, CREATE_FLAGS, modeOf(file));
  return made ?? createPartial(pathOf(folder, name), file);
}
