/** Modification times to the nanosecond: file functions take floating-point seconds, exact to 0.25 µs; Bun can call the system. */
import { lutimesSync } from 'node:fs';
import { BIG_NS_PER_S } from '@holdfast/protocol';
import { seekSystemFunctions } from '../system-library.ts';

interface SystemFunctions {
  utimensat(folder: number, path: Buffer, times: BigInt64Array, flags: number): number;
}

/** `utimensat`: paths count from the working folder; a link itself gets the time, not what it points at. */
const FROM_WORKING_FOLDER = process.platform === 'darwin' ? -2 : -100;
const NO_FOLLOW = process.platform === 'darwin' ? 0x20 : 0x100;
const findCalls = seekSystemFunctions<SystemFunctions>({
  utimensat: { args: ['i32', 'ptr', 'ptr', 'i32'], returns: 'i32' },
});

/** Whether `foundNs` is what a file has after `setTimes`: exactly that time, or as near as this runtime comes. */
export function isTime(foundNs: bigint, mtimeNs: bigint): boolean {
  if (findCalls() !== undefined) return foundNs === mtimeNs;
  const off = foundNs - mtimeNs;
  // A time in floating point, which the runtime then cuts to microseconds, is less than 2 µs off.
  return -2_000n < off && off < 2_000n;
}

/** Sets access and modification time of what stands at `path`, a link itself. Throws what the system says. */
export function setTimes(path: Buffer, mtimeNs: bigint): void {
  const nanoseconds = ((mtimeNs % BIG_NS_PER_S) + BIG_NS_PER_S) % BIG_NS_PER_S;
  const seconds = (mtimeNs - nanoseconds) / BIG_NS_PER_S;
  const times = BigInt64Array.of(seconds, nanoseconds, seconds, nanoseconds);
  const text = Buffer.concat([path, Buffer.of(0)]);
  if (findCalls()?.utimensat(FROM_WORKING_FOLDER, text, times, NO_FOLLOW) === 0) return;
  // Also where the exact call failed: this one says why, in words.
  // As text, because Node takes a negative number for the present.
  const rounded = String(Number(mtimeNs) / 1e9);
  lutimesSync(path, rounded, rounded);
}
