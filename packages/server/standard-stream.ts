/** Writes to a standard stream whose reader may stop reading, without a wait or a change that others who share it notice. */
import { ptr } from 'bun:ffi';
import { constants, fstatSync, openSync, type Stats, write, writeSync } from 'node:fs';
import { codeOf } from './error-code.ts';
import { openSystemFunctions } from './runtime/system-library.ts';

/** bytes taken; `full`: none now, try again later */
type WriteResult = number | 'full';

export interface StreamOutput {
  /** Returns at once if the stream can be asked without a wait, else a promise. Throws or rejects with the error of the system. */
  write(bytes: Uint8Array): WriteResult | Promise<WriteResult>;
  /** as `write`, of bytes for which nobody waits any more: it never waits */
  writeLast(bytes: Uint8Array): WriteResult;
  /** `write` asks another thread, whose answer a process that ends does not hear */
  readonly isElsewhere: boolean;
  /** writes up to this many bytes are never mixed with those of other processes */
  readonly wholeBytesMax: number;
}

/** Bytes that a pipe writes atomically. */
const PIPE_BYTES_MAX = 4096;
/** A description of our own, whose flags no other process shares. A pipe without a reader is refused instead of waited for. */
const OWN_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY;

/** Undefined where the system refuses, as for a socket or another user's pipe. Throws ENXIO for a pipe without a reader. */
export function openOwnDescription(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, OWN_FLAGS);
  } catch (error) {
    if (codeOf(error) === 'ENXIO' && fstatSync(fd).isFIFO()) throw error;
    return undefined;
  }
}

/** Throws the error of the system if the stream is not open, or is a pipe that nobody reads. */
export function openStreamOutput(fd: number): StreamOutput {
  const stats = fstatSync(fd);
  // The system takes bytes for a file whenever its disk does: that may take a while, and is not this thread's wait.
  if (stats.isFile()) return fileOutput(fd, 64 * 1024);
  const own = openOwnDescription(fd);
  if (own !== undefined) return ownOutput(own);
  return sharedOutput(fd, stats);
}

function ownOutput(fd: number): StreamOutput {
  const writeNow = (bytes: Uint8Array): WriteResult => {
    try {
      return writeSync(fd, bytes);
    } catch (error) {
      if (codeOf(error) === 'EAGAIN') return 'full';
      throw error;
    }
  };
  return { write: writeNow, writeLast: writeNow, isElsewhere: false, wholeBytesMax: PIPE_BYTES_MAX };
}

function fileOutput(fd: number, wholeBytesMax: number): StreamOutput {
  return {
    write: (bytes) =>
      new Promise((resolve, reject) => {
        write(fd, bytes, (error, written) => {
          if (error === null) resolve(written);
          else if (codeOf(error) === 'EAGAIN') resolve('full');
          else reject(error);
        });
      }),
    writeLast: (bytes) => writeSync(fd, bytes),
    isElsewhere: true,
    wholeBytesMax,
  };
}

/** Values of the system's headers, the same on every Linux. */
const LINUX = { POLLOUT: 0x4, POLLERR: 0x8, POLLHUP: 0x10, RWF_NOWAIT: 0x8 } as const;
const AT_POSITION = -1;

interface System {
  poll(descriptors: Uint8Array, count: number, timeoutMs: number): number;
  pwritev2(fd: number, parts: BigUint64Array, count: number, offset: number, flags: number): number | bigint;
}

/** A stream that cannot be opened anew: the system is asked not to wait, or another thread waits. */
function sharedOutput(fd: number, stats: Stats): StreamOutput {
  const system = openSystemFunctions<System>({
    poll: { args: ['ptr', 'u64', 'i32'], returns: 'i32' },
    pwritev2: { args: ['i32', 'ptr', 'i32', 'i64', 'i32'], returns: 'i64' },
  });
  const other = fileOutput(fd, PIPE_BYTES_MAX);
  let refusals = 0;
  // A stream that says it has room and refuses so often cannot be asked this way.
  const isAskable = (): boolean => refusals < 20 && (stats.isFIFO() || stats.isSocket());
  const writeNow = (bytes: Uint8Array): WriteResult => {
    if (system === undefined || !hasRoom(system, fd)) return 'full';
    // A stream with room takes some bytes without a wait, unless another process is faster.
    if (!isAskable()) return writeSync(fd, bytes);
    const part = new BigUint64Array([BigInt(ptr(bytes)), BigInt(bytes.length)]);
    const written = Number(system.pwritev2(fd, part, 1, AT_POSITION, LINUX.RWF_NOWAIT));
    refusals = written < 0 ? refusals + 1 : 0;
    return written < 0 ? 'full' : written;
  };
  return {
    write: (bytes) => (system !== undefined && isAskable() ? writeNow(bytes) : other.write(bytes)),
    writeLast: writeNow,
    isElsewhere: false,
    wholeBytesMax: PIPE_BYTES_MAX,
  };
}

/** Throws EPIPE if nobody can read what is written. */
function hasRoom(system: System, fd: number): boolean {
  const descriptor = new Uint8Array(8);
  const view = new DataView(descriptor.buffer);
  view.setInt32(0, fd, true);
  view.setInt16(4, LINUX.POLLOUT, true);
  if (system.poll(descriptor, 1, 0) <= 0) return false;
  const found = view.getInt16(6, true);
  if ((found & (LINUX.POLLERR | LINUX.POLLHUP)) !== 0)
    throw Object.assign(new Error('nobody reads it'), { code: 'EPIPE' });
  return (found & LINUX.POLLOUT) !== 0;
}
