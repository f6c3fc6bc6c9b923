/**
 * Modification times to the nanosecond, as the tree has them. The file functions of every runtime take seconds as floating
 * point, which is exact to a quarter of a microsecond; Bun can call the system itself.
 */
import { lutimesSync } from 'node:fs';

type SetTimes = (path: Buffer, times: BigInt64Array) => boolean;

const LIBRARIES: readonly string[] = ['libc.so.6', 'libSystem.B.dylib', 'libc.so'];
/** `utimensat`: paths count from the working folder; a link itself gets the time, not what it points at. */
const FROM_WORKING_FOLDER = process.platform === 'darwin' ? -2 : -100;
const NO_FOLLOW = process.platform === 'darwin' ? 0x20 : 0x100;
const NS_PER_SECOND = 1_000_000_000n;

let known: SetTimes | 'none' | undefined;

/** Sets access and modification time of what stands at `path`, a link itself. Throws what the system says. */
export function setTimes(path: Buffer, mtimeNs: bigint): void {
  known ??= findSetTimes();
  const nanoseconds = ((mtimeNs % NS_PER_SECOND) + NS_PER_SECOND) % NS_PER_SECOND;
  const seconds = (mtimeNs - nanoseconds) / NS_PER_SECOND;
  const times = BigInt64Array.of(seconds, nanoseconds, seconds, nanoseconds);
  if (known !== 'none' && known(Buffer.concat([path, Buffer.of(0)]), times)) return;
  // Also where the exact call failed: this one says why, in words.
  const rounded = Number(mtimeNs) / 1e9;
  lutimesSync(path, rounded, rounded);
}

/** Node has this since 20.16. */
interface Builtins {
  getBuiltinModule?(id: string): unknown;
}

/** The part of Bun's door to C libraries that is needed; other runtimes have none. */
interface ForeignFunctions {
  dlopen(
    library: string,
    functions: { readonly utimensat: { readonly args: readonly string[]; readonly returns: string } },
  ): {
    readonly symbols: {
      utimensat(folder: number, path: Buffer, times: BigInt64Array, flags: number): number;
    };
  };
}

function findSetTimes(): SetTimes | 'none' {
  const foreign = (process as Builtins).getBuiltinModule?.('bun:ffi') as ForeignFunctions | undefined;
  if (foreign === undefined) return 'none';
  for (const library of LIBRARIES) {
    try {
      const { symbols } = foreign.dlopen(library, {
        utimensat: { args: ['i32', 'ptr', 'ptr', 'i32'], returns: 'i32' },
      });
      return (path, times) => symbols.utimensat(FROM_WORKING_FOLDER, path, times, NO_FOLLOW) === 0;
    } catch {
      // Another system calls it otherwise; without any, times are rounded.
    }
  }
  return 'none';
}
