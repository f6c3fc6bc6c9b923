/**
 * Why: the runtime has no calls for some things that the system can do.
 * Since: Bun 1.4.5 or earlier.
 * Without it: no steady clock, no throttle of accepted connections, no write to a shared pipe that never waits.
 * Goes when: the runtime has these calls.
 */
import { dlopen, type FFIFunction } from 'bun:ffi';

/** The first that can be opened counts. */
const LIBRARIES: readonly string[] = [
  'libc.so.6',
  'libSystem.B.dylib',
  `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`,
  'libc.so',
];

/** Functions of the system's C library. Undefined if the system has no such library, or the library lacks one of them. */
export function openSystemFunctions<F>(
  functions: Readonly<Record<keyof F & string, FFIFunction>>,
): F | undefined {
  for (const library of LIBRARIES) {
    try {
      return dlopen(library, functions).symbols as F;
    } catch {
      // Another system calls its library otherwise.
    }
  }
  return undefined;
}
