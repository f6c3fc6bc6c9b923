/**
 * Steps of the system that name an entry by the descriptor of its folder. Runtimes offer none of them; Bun can call them on Linux.
 * A path through the descriptor leads to the same entry, but takes the system a quarter longer for each small file. A step that
 * fails gives no reason here. Then the caller tries the path, which gives one.
 */
import type { ByteString } from './byte-names.ts';
import { EntryStats, STATX_BYTES } from './entry-stats.ts';
import { seekSystemFunctions } from './system-library.ts';

interface SystemFunctions {
  statx(folder: number, name: Buffer, flags: number, mask: number, found: Uint8Array): number;
  openat(folder: number, name: Buffer, flags: number, mode: number): number;
  mkdirat(folder: number, name: Buffer, mode: number): number;
  renameat2(fromFolder: number, from: Buffer, toFolder: number, to: Buffer, flags: number): number;
}

/** On Linux a folder that is held open has a path here that leads to it, also when the folder is moved or renamed. */
export const DESCRIPTORS = '/proc/self/fd';
/** One entry is looked at at a time, so all share this memory. */
const FOUND = new Uint8Array(STATX_BYTES);
const FOUND_VIEW = new DataView(FOUND.buffer);
const NAME_ROOM = Buffer.alloc(4096);
/** For a second name of one call. */
const OTHER_ROOM = Buffer.alloc(NAME_ROOM.length);

const seekOnLinux = seekSystemFunctions<SystemFunctions>({
  statx: { args: ['i32', 'ptr', 'i32', 'u32', 'ptr'], returns: 'i32' },
  openat: { args: ['i32', 'ptr', 'i32', 'u32'], returns: 'i32' },
  mkdirat: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
  renameat2: { args: ['i32', 'ptr', 'i32', 'ptr', 'u32'], returns: 'i32' },
});
const findCalls = (): SystemFunctions | undefined =>
  process.platform === 'linux' ? seekOnLinux() : undefined;

/** The descriptor of an entry; undefined when this step failed. `mode` is that of a new file, before the umask. */
export function openIn(
  folder: number,
  name: Uint8Array | ByteString,
  flags: number,
  mode = 0,
): number | undefined {
  // O_CLOEXEC of Linux, which Node has no name for: another program does not inherit the descriptor.
  const descriptor = findCalls()?.openat(folder, asText(name), flags | 0o2000000, mode);
  return descriptor === undefined || descriptor < 0 ? undefined : descriptor;
}

/** Attributes without following a link; undefined: this step failed. An empty name is what `folder` is open on. */
export function lookAtIn(folder: number, name: ByteString): EntryStats | undefined {
  const calls = findCalls();
  if (calls === undefined) return undefined;
  // AT_EMPTY_PATH or AT_SYMLINK_NOFOLLOW; then STATX_BASIC_STATS.
  const flags = name === '' ? 0x1000 : 0x100;
  const isFound = calls.statx(folder, asText(name), flags, 0x7ff, FOUND) === 0;
  return isFound ? EntryStats.from(FOUND_VIEW) : undefined;
}

/** False when this step failed. */
export function makeFolderIn(folder: number, name: Uint8Array): boolean {
  // The umask takes bits away.
  return findCalls()?.mkdirat(folder, asText(name), 0o777) === 0;
}

/** Gives an entry another name in one step that never replaces what has that name; false when this step failed. */
export function renameExclusivelyIn(folder: number, from: Uint8Array, to: Uint8Array): boolean {
  // RENAME_NOREPLACE.
  return findCalls()?.renameat2(folder, asText(from), folder, asText(to, OTHER_ROOM), 1) === 0;
}

/** As C takes it, in memory that the next call uses again. A name in a tree has no zero byte. */
function asText(name: Uint8Array | ByteString, usual = NAME_ROOM): Buffer {
  const room = name.length < usual.length ? usual : Buffer.allocUnsafe(name.length + 1);
  if (typeof name === 'string') room.write(name, 0, 'latin1');
  else room.set(name);
  room[name.length] = 0;
  return room;
}
