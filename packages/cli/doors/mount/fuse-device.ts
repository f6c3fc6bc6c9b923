/**
 * The kernel's side of a mount: `/dev/fuse`, mounted by the system's call where this is root, else by `fusermount3`, which hands its
 * descriptor over. A process that asks its own mount for anything and waits would wait for itself, so this looks at mounts in
 * `/proc` only, once it is mounted.
 */
import { type Pointer, ptr, read } from 'bun:ffi';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { seekSystemFunctions } from '@holdfast/files/system-library';
import { CliError } from '../../cli-error.ts';
import { describeFileError } from '../../files.ts';

/** A request at a time, and answers; `undefined` when it is unmounted. */
export interface FuseDevice {
  /** `isSoon`: a program was just answered, and may go on at once. */
  read(isSoon: boolean): Promise<Buffer | undefined>;
  write(parts: readonly Uint8Array[]): void;
}

const DEVICE = '/dev/fuse';
const HELPER = 'fusermount3';
const FILE_SYSTEM = 'fuse.holdfast';
/** The kernel sends no larger request where nothing is written. */
const REQUEST_BYTES_MAX = 128 * 1024;

/** Values of the system's headers, the same on every Linux. */
const LINUX = {
  ...{ MS_RDONLY: 1, MS_NOSUID: 2, MS_NODEV: 4, MNT_DETACH: 2 },
  ...{ AF_UNIX: 1, SOCK_STREAM: 1, SOCK_CLOEXEC: 0o2000000, MSG_CMSG_CLOEXEC: 0x40000000 },
  ...{ EPERM: 1, POLLIN: 1, F_SETFL: 4 },
} as const;

interface System {
  mount(source: Uint8Array, target: Uint8Array, type: Uint8Array, flags: bigint, data: Uint8Array): number;
  umount2(target: Uint8Array, flags: number): number;
  socketpair(domain: number, type: number, protocol: number, pair: Int32Array): number;
  recvmsg(socket: number, message: BigUint64Array, flags: number): bigint;
  fcntl(descriptor: number, command: number, flags: number): number;
  ppoll(polled: Int32Array, count: bigint, timeout: BigInt64Array, mask: null): number;
  __errno_location(): Pointer;
}

const findSystem = seekSystemFunctions<System>({
  mount: { args: ['ptr', 'ptr', 'ptr', 'u64', 'ptr'], returns: 'i32' },
  umount2: { args: ['ptr', 'i32'], returns: 'i32' },
  socketpair: { args: ['i32', 'i32', 'i32', 'ptr'], returns: 'i32' },
  recvmsg: { args: ['i32', 'ptr', 'i32'], returns: 'i64' },
  fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
  ppoll: { args: ['ptr', 'u64', 'ptr', 'ptr'], returns: 'i32' },
  __errno_location: { args: [], returns: 'ptr' },
});

/** Throws CliError. */
function openSystem(): System {
  const system = findSystem();
  if (system === undefined)
    throw new CliError('this system has no library that mounts; use: holdfast gateway webdav');
  return system;
}

const toCString = (text: string): Buffer => Buffer.from(`${text}\0`);

export class Mount implements FuseDevice {
  /** absolute */
  readonly #path: string;
  readonly #descriptor: number;
  readonly #system: System;
  readonly #buffer = Buffer.alloc(REQUEST_BYTES_MAX);
  readonly #polled: Int32Array;
  // 50 µs: a program asks again sooner than a waiting thread wakes up.
  readonly #soon = new BigInt64Array([0n, 50_000n]);
  #soonCount = 0;
  #isWaiting = true;

  /** Throws CliError. */
  constructor(directory: string, isForOthers: boolean) {
    if (!fs.existsSync(DEVICE)) {
      throw new CliError(
        `there is no ${DEVICE}: load it with modprobe fuse, or give it to the container: --device ${DEVICE} --cap-add SYS_ADMIN`,
      );
    }
    this.#system = openSystem();
    this.#path = findPath(directory);
    this.#takeStaleAway();
    requireEmpty(directory);
    const shared = isForOthers ? ',allow_other' : '';
    this.#descriptor = isRoot() ? this.#mountAsRoot(shared) : this.#mountByHelper(shared);
    this.#polled = new Int32Array([this.#descriptor, LINUX.POLLIN]);
  }

  async read(isSoon: boolean): Promise<Buffer | undefined> {
    for (;;) {
      try {
        const isThere = this.#isThere(isSoon);
        // A request may be given up between the look and the read, which would then hold up this whole process.
        this.#setWaiting(!isThere);
        const length = isThere ? fs.readSync(this.#descriptor, this.#buffer) : await this.#readLater();
        return this.#buffer.subarray(0, length);
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException;
        if (code === 'ENODEV' || code === 'ECONNABORTED') return undefined;
        // Somebody gave the request up before it was read.
        if (!['ENOENT', 'EINTR', 'EAGAIN'].includes(code)) throw error;
      }
    }
  }

  #isThere(isSoon: boolean): boolean {
    // After 64 such waits, answers of the server have their turn.
    this.#soonCount = isSoon && this.#soonCount < 64 ? this.#soonCount + 1 : 0;
    return this.#soonCount > 0 && this.#system.ppoll(this.#polled, 1n, this.#soon, null) > 0;
  }

  /** Whether a read waits for a request. */
  #setWaiting(isWaiting: boolean): void {
    if (isWaiting !== this.#isWaiting)
      this.#system.fcntl(this.#descriptor, LINUX.F_SETFL, isWaiting ? 0 : fs.constants.O_NONBLOCK);
    this.#isWaiting = isWaiting;
  }

  #readLater(): Promise<number> {
    this.#soonCount = 0;
    return new Promise((settle, fail) => {
      const onRead = (error: Error | null, length: number): void =>
        error === null ? settle(length) : fail(error);
      fs.read(this.#descriptor, this.#buffer, 0, REQUEST_BYTES_MAX, null, onRead);
    });
  }

  write(parts: readonly Uint8Array[]): void {
    try {
      fs.writevSync(this.#descriptor, parts as Uint8Array[]);
    } catch (error) {
      // Nobody waits for the answer any more.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'ENODEV') throw error;
    }
  }

  /** Detached: what is open stays so until this process ends. */
  unmount(): void {
    if (this.#isMounted()) this.#detach();
  }

  /** The kernel has ended it. Others may be mounted there by now, but a mount that was cut off is still there. */
  leave(): void {
    if (isStale(this.#path)) this.unmount();
  }

  #isMounted(): boolean {
    return fs
      .readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .some((line) => {
        const fields = line.split(' ');
        return decodePath(fields[4] ?? '') === this.#path && fields.includes(FILE_SYSTEM);
      });
  }

  #detach(): void {
    if (isRoot()) this.#system.umount2(toCString(this.#path), LINUX.MNT_DETACH);
    else runHelper(['-u', '-z', '--', this.#path]);
  }

  /** A process that was killed leaves its mount, which answers nothing. */
  #takeStaleAway(): void {
    // A stale mount may lie over another.
    for (let count = 0; count < 16 && isStale(this.#path) && this.#isMounted(); count += 1) {
      this.#detach();
    }
    if (this.#isMounted()) throw new CliError(`${this.#path} is mounted already; run: umount ${this.#path}`);
  }

  #mountAsRoot(shared: string): number {
    const descriptor = fs.openSync(DEVICE, 'r+');
    const options = `fd=${descriptor},rootmode=40000,user_id=0,group_id=0,default_permissions${shared}`;
    const { mount } = this.#system;
    const flags = BigInt(LINUX.MS_RDONLY | LINUX.MS_NOSUID | LINUX.MS_NODEV);
    const arguments_ = ['holdfast', this.#path, FILE_SYSTEM, options].map(toCString);
    const [source, target, type, data] = arguments_ as [Buffer, Buffer, Buffer, Buffer];
    if (mount(source, target, type, flags, data) === 0) return descriptor;
    const errno = read.i32(this.#system.__errno_location(), 0);
    const advice =
      errno === LINUX.EPERM
        ? 'mounting is not allowed here: give the container --cap-add SYS_ADMIN'
        : 'see dmesg';
    throw new CliError(`${this.#path} cannot be mounted on (errno ${errno}); ${advice}`);
  }

  #mountByHelper(shared: string): number {
    const pair = new Int32Array(2);
    if (this.#system.socketpair(LINUX.AF_UNIX, LINUX.SOCK_STREAM | LINUX.SOCK_CLOEXEC, 0, pair) !== 0) {
      throw new CliError('too many files are open');
    }
    const [own, given] = pair as unknown as [number, number];
    try {
      const options = `ro,nosuid,nodev,fsname=holdfast,subtype=holdfast,default_permissions${shared}`;
      runHelper(['-o', options, '--', this.#path], given);
      return this.#receive(own);
    } finally {
      for (const descriptor of pair) fs.closeSync(descriptor);
    }
  }

  /** The descriptor that the helper sent. */
  #receive(socket: number): number {
    const [byte, control] = [Buffer.alloc(1), Buffer.alloc(64)];
    const vector = new BigUint64Array([BigInt(ptr(byte)), 1n]);
    const [at, controlAt] = [BigInt(ptr(vector)), BigInt(ptr(control))];
    const message = new BigUint64Array([0n, 0n, at, 1n, controlAt, BigInt(control.length), 0n]);
    const isCome = this.#system.recvmsg(socket, message, LINUX.MSG_CMSG_CLOEXEC) > 0n;
    // The descriptor stands behind the length and the two words of a control message.
    const isThere = isCome && control.readUInt32LE(0) > 16;
    if (!isThere) throw new CliError(`${HELPER} mounted nothing; run it by hand to see why`);
    return control.readInt32LE(16);
  }
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Throws CliError with what it said. */
function runHelper(args: readonly string[], socket?: number): void {
  const stdio = ['ignore', 'ignore', 'pipe', ...(socket === undefined ? [] : [socket])] as const;
  const { error, status, stderr } = spawnSync(HELPER, args, {
    stdio: [...stdio],
    env: { ...process.env, _FUSE_COMMFD: '3' },
    encoding: 'utf8',
  });
  if (error !== undefined) {
    throw new CliError(`${HELPER} cannot be run; who is not root needs it: apt-get install fuse3`);
  }
  if (status !== 0) throw new CliError(stderr.trim().split('\n')[0] || `${HELPER} failed`);
}

/** Without asking what is mounted there. Throws CliError. */
function findPath(directory: string): string {
  const path = resolve(directory);
  try {
    const inFolder = resolve(fs.realpathSync(dirname(path)), basename(path));
    return isStale(inFolder) ? inFolder : fs.realpathSync(inFolder);
  } catch (error) {
    throw unusable(directory, error);
  }
}

function unusable(directory: string, error: unknown): CliError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT' && fs.lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
    return new CliError(`${directory} does not exist; make it: mkdir -p ${directory}`);
  }
  const words = { ENOENT: 'it is a link that leads nowhere', ENOTDIR: 'it is no folder' };
  const reason = words[code as keyof typeof words] ?? describeFileError(error);
  return new CliError(`${directory} cannot be mounted on: ${reason}; give an empty folder`);
}

function isStale(path: string): boolean {
  try {
    fs.statSync(path);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOTCONN';
  }
}

/** Throws CliError. */
function requireEmpty(directory: string): void {
  let names: readonly string[];
  try {
    names = fs.readdirSync(directory);
  } catch (error) {
    throw unusable(directory, error);
  }
  if (names.length > 0) throw new CliError(`${directory} is not empty; mount on an empty folder`);
}

/** As `/proc` writes paths. */
function decodePath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
