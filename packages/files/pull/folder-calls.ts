/**
 * Steps of the system that name an entry by the descriptor of its folder. Runtimes offer none of them; Bun can call them on Linux.
 * A path through the descriptor leads to the same entry, but takes the system a quarter longer for each small file. A step that
 * fails gives no reason here. Then the caller tries the path, which gives one.
 */
import { seekSystemFunctions } from './system-library.ts';

interface SystemFunctions {
  openat(folder: number, name: Buffer, flags: number, mode: number): number;
  mkdirat(folder: number, name: Buffer, mode: number): number;
  renameat2(fromFolder: number, from: Buffer, toFolder: number, to: Buffer, flags: number): number;
}

/** O_CLOEXEC of Linux, which Node has no name for: a process that is started does not inherit the descriptor. */
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

/** The descriptor of an entry; undefined when this step failed. `mode` is that of a new file, before the umask. */
export function openIn(folder: number, name: Uint8Array, flags: number, mode = 0): number | undefined {
  const descriptor = findCalls()?.openat(folder, asText(name), flags | CLOSE_ON_START, mode);
  return descriptor === undefined || descriptor < 0 ? undefined : descriptor;
}

/** False when this step failed. */
export function makeFolderIn(folder: number, name: Uint8Array): boolean {
  return findCalls()?.mkdirat(folder, asText(name), FOLDER_MODE) === 0;
}

/** Gives an entry another name in one step that never replaces what has that name; false when this step failed. */
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
