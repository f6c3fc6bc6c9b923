/**
 * Steps of the system that name an entry by the descriptor of its folder. Runtimes offer none of them; Bun can call them on Linux.
 * A path through the descriptor leads to the same entry, and takes the system a quarter longer for each small file. A step that
 * fails says nothing of the reason: the caller takes the path then, which does.
 */
import { seekSystemFunctions } from './system-library.ts';

interface SystemFunctions {
  openat(folder: number, name: Buffer, flags: number, mode: number): number;
  mkdirat(folder: number, name: Buffer, mode: number): number;
  renameat2(fromFolder: number, from: Buffer, toFolder: number, to: Buffer, flags: number): number;
}

/** Linux has it, and Node no name for it: a process that is started does not inherit the descriptor. */
const CLOSE_ON_START = 0o2000000;
/** of `renameat2` */
const NO_REPLACE = 1;
/** before the umask */
const FOLDER_MODE = 0o777;

const seekOnLinux = seekSystemFunctions<SystemFunctions>({
  openat: { args: ['i32', 'ptr', 'i32', 'u32'], returns: 'i32' },
  mkdirat: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
  renameat2: { args: ['i32', 'ptr', 'i32', 'ptr', 'u32'], returns: 'i32' },
});
const findCalls = (): SystemFunctions | undefined =>
  process.platform === 'linux' ? seekOnLinux() : undefined;

/** The descriptor of an entry; undefined when it could not be opened so. `mode` is that of a new file, before the umask. */
export function openIn(folder: number, name: Uint8Array, flags: number, mode = 0): number | undefined {
  const descriptor = findCalls()?.openat(folder, asText(name), flags | CLOSE_ON_START, mode);
  return descriptor === undefined || descriptor < 0 ? undefined : descriptor;
}

/** False when it could not be made so. */
export function makeFolderIn(folder: number, name: Uint8Array): boolean {
  return findCalls()?.mkdirat(folder, asText(name), FOLDER_MODE) === 0;
}

/** Gives an entry another name in one step that never replaces what has that name; false when it could not be done so. */
export function renameExclusivelyIn(folder: number, from: Uint8Array, to: Uint8Array): boolean {
  return findCalls()?.renameat2(folder, asText(from), folder, asText(to), NO_REPLACE) === 0;
}

/** As C takes it. A name in a tree has no zero byte. */
function asText(name: Uint8Array): Buffer {
  const text = Buffer.allocUnsafe(name.length + 1);
  text.set(name);
  text[name.length] = 0;
  return text;
}
