/** Answers the kernel: each request once, within a bound, and with EIO for every failure. */
import type { FuseDevice } from './fuse-device.ts';
import {
  answerInit,
  ERRNO,
  type FuseRequest,
  formatAnswer,
  OPCODES,
  parseInterrupt,
  parseRequest,
} from './fuse-wire.ts';

/** The answer to a request that is no success. */
export class FuseError extends Error {
  override readonly name = 'FuseError';
  readonly errno: number;

  constructor(errno: number) {
    super(`errno ${errno}`);
    this.errno = errno;
  }
}

/** The parts of the answer. */
export type FuseHandler = (request: FuseRequest) => Promise<readonly Uint8Array[]>;

/** The kernel asks a second time for what it read ahead and did not get: a program waits twice as long. */
const ANSWER_MS_MAX = 25_000;
const UNANSWERED: ReadonlySet<number> = new Set([OPCODES.forget, OPCODES.batchForget, OPCODES.destroy]);

export class FuseSession {
  readonly #device: FuseDevice;
  readonly #handle: FuseHandler;
  readonly #tell: (error: unknown) => void;
  readonly #open = new Map<bigint, () => void>();
  #onIdle = (): void => undefined;

  /** `tell` hears of every failure. */
  constructor(device: FuseDevice, handle: FuseHandler, tell: (error: unknown) => void) {
    this.#device = device;
    this.#handle = handle;
    this.#tell = tell;
  }

  /** Until it is unmounted. `onReady` is called once the kernel has been greeted. Rejects when the kernel cannot be understood. */
  async serve(onReady: () => void): Promise<void> {
    for (let isSoon = false; ; ) {
      const message = await this.#device.read(isSoon);
      if (message === undefined) return;
      const request = parseRequest(message);
      if (request.opcode === OPCODES.init) {
        const answer = answerInit(request.body);
        if (answer === undefined) throw new Error('this kernel is too old to be mounted on');
        this.#answer(request.unique, 0, [answer]);
        onReady();
      } else if (request.opcode === OPCODES.interrupt) {
        this.#interrupt(parseInterrupt(request.body));
      } else if (!UNANSWERED.has(request.opcode)) {
        void this.#serveOne(request);
        await this.#answerAtOnce();
      }
      isSoon = this.#open.size === 0;
    }
  }

  /** Answers from what is kept before it waits for anything else. */
  async #answerAtOnce(): Promise<void> {
    // One request takes at most 256 steps of code without a wait.
    for (let turn = 0; turn < 256 && this.#open.size > 0; turn += 1) await undefined;
  }

  /** Answers the requests of now. */
  async idle(): Promise<void> {
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
  }

  async #serveOne(request: FuseRequest): Promise<void> {
    const { unique } = request;
    const interrupted = Promise.withResolvers<never>();
    this.#open.set(unique, () => interrupted.reject(new FuseError(ERRNO.interrupted)));
    const late = setTimeout(() => {
      interrupted.reject(new Error(`no answer from the server within ${ANSWER_MS_MAX / 1000} s`));
    }, ANSWER_MS_MAX);
    try {
      const answer = await Promise.race([this.#handle(request), interrupted.promise]);
      this.#answer(unique, 0, answer);
    } catch (error) {
      if (!(error instanceof FuseError)) this.#tell(error);
      this.#answer(unique, error instanceof FuseError ? error.errno : ERRNO.io, []);
    } finally {
      clearTimeout(late);
      this.#open.delete(unique);
      if (this.#open.size === 0) this.#onIdle();
    }
  }

  #interrupt(unique: bigint): void {
    // A program that handles the signal must not see its read fail.
    setTimeout(() => this.#open.get(unique)?.(), 2_000).unref();
  }

  #answer(unique: bigint, errno: number, parts: readonly Uint8Array[]): void {
    this.#device.write(formatAnswer(unique, errno, parts));
  }
}
