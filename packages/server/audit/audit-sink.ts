/** Writes whole lines off the event loop, one at a time, behind a bounded queue. Lines that cannot be written are counted and reported. */
import { codeOf } from '../error-code.ts';
import { AUDIT_FAILING, AUDIT_LINES, AUDIT_LOST } from '../metrics/server-metrics.ts';
import { formatLine } from './audit-event.ts';
import {
  type AuditTarget,
  closeFile,
  isSameFile,
  isSocket,
  isStillThere,
  type OpenFile,
  openTarget,
  writeLastTo,
  writeTo,
} from './sink-file.ts';

/** A file counts as failed if a write takes this long, until one succeeds. */
const STUCK_MS_MAX = 2000;
const PROBE_MS = 1000;
const UNFIT_CODES: ReadonlySet<string | undefined> = new Set([
  'EACCES',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
  'EPERM',
  'EROFS',
]);

export type SinkReport =
  | { readonly kind: 'failing'; readonly reason: string }
  | { readonly kind: 'recovered'; readonly lost: number };

interface Waiter {
  /** number of the line that it waits for */
  readonly line: number;
  readonly resolve: (isWritten: boolean) => void;
}

export class AuditSink {
  readonly #target: AuditTarget;
  readonly #report: (report: SinkReport) => void;
  #file: OpenFile | undefined;
  #queue: string[] = [];
  #queuedBytes = 0;
  /** lines handed in, and how many of them were written or lost */
  #taken = 0;
  #settled = 0;
  #waiters: Waiter[] = [];
  #writing: Promise<void> | undefined;
  #hurry: (() => void) | undefined;
  #probe: Timer | undefined;
  /** why the file cannot be written */
  #failure: string | undefined;
  /** whether a system call hangs */
  #isStuck = false;
  /** a file that ends in the middle of a line */
  #torn: OpenFile | undefined;
  /** lines lost since the last one that was written */
  #lost = 0;
  #isClosed = false;

  constructor(target: AuditTarget, report: (report: SinkReport) => void) {
    this.#target = target;
    this.#report = report;
    AUDIT_FAILING.set(0);
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  /** Rejects with the system's error if the file can never be a log. Temporary failures are retried. */
  async open(): Promise<void> {
    try {
      this.#file = await openTarget(this.#target);
    } catch (error) {
      if (UNFIT_CODES.has(codeOf(error)) || (await isSocket(this.#target))) throw error;
      this.#fail(reasonOf(error));
    }
  }

  /** `line` ends with a line feed. */
  push(line: string): void {
    this.#taken += 1;
    if (this.#isStuck || this.#isClosed || this.#queuedBytes + line.length > 1024 * 1024) {
      this.#lose(1);
      // Earlier lines may still be queued, so waiters get the pessimistic answer.
      this.#settleWaiters(this.#taken, false);
      return;
    }
    this.#queue.push(line);
    this.#queuedBytes += line.length;
    this.#start();
  }

  /** Resolves when every line handed in so far is written; false: some were lost. */
  written(): Promise<boolean> {
    if (this.#settled >= this.#taken) return Promise.resolve(this.#lost === 0);
    this.#hurry?.();
    return new Promise((resolve) => void this.#waiters.push({ line: this.#taken, resolve }));
  }

  /** Reopens the file by name before the next line, because the open one may have been moved. */
  reopen(): void {
    const file = this.#file;
    this.#file = undefined;
    // A write under way ends first: the file is closed where nothing else is begun.
    void (this.#writing ?? Promise.resolve()).then(() => file !== undefined && closeFile(file));
  }

  /** Waits for the queue, no longer than a stuck file is waited for. */
  async close(): Promise<void> {
    this.#hurry?.();
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STUCK_MS_MAX);
    });
    await Promise.race([this.#writing ?? Promise.resolve(), late]);
    clearTimeout(timer);
    this.#isClosed = true;
    clearTimeout(this.#probe);
    if (this.#file !== undefined && this.#writing === undefined) closeFile(this.#file);
  }

  /** The process is ending: the queue is written synchronously. */
  writeAtExit(): void {
    if (this.#file === undefined || this.#isStuck || this.#isClosed || this.#queue.length === 0) return;
    try {
      writeLastTo(this.#file, Buffer.from(this.#queue.join('')));
    } catch {
      // No one is left to report to.
    }
    this.#queue = [];
  }

  #start({ isProbe = false } = {}): void {
    this.#writing ??= this.#writeQueue(isProbe).finally(() => {
      this.#writing = undefined;
      if (this.#queue.length > 0) this.#start();
    });
  }

  async #writeQueue(isProbe: boolean): Promise<void> {
    if (isProbe) await this.#watchBatch();
    while (this.#queue.length > 0) {
      await this.#gather();
      await this.#watchBatch();
    }
  }

  async #watchBatch(): Promise<void> {
    const stuck = setTimeout(() => this.#noteStuck(), STUCK_MS_MAX);
    try {
      await this.#writeBatch();
    } finally {
      clearTimeout(stuck);
      this.#isStuck = false;
    }
  }

  async #gather(): Promise<void> {
    await new Promise<void>((resolve) => {
      // Lines that come within 20 ms are written together.
      const timer = setTimeout(resolve, 20);
      this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#waiters.length > 0) this.#hurry();
    });
    this.#hurry = undefined;
  }

  async #writeBatch(): Promise<void> {
    let batch: { readonly lines: number; readonly bytes: Buffer } | undefined;
    try {
      const file = await this.#openFile();
      batch = this.#takeBatch(file.wholeBytesMax);
      await this.#writeWhole(file, batch.bytes);
      this.#settle(batch.lines, batch.lines);
      this.#recover();
    } catch (error) {
      // An error before a batch was taken loses all that is queued: else it would be tried line by line, to no use.
      const lines = batch?.lines ?? this.#takeBatch(Number.POSITIVE_INFINITY).lines;
      this.#fail(reasonOf(error));
      this.#settle(lines, 0);
    }
  }

  async #openFile(): Promise<OpenFile> {
    const file = this.#file;
    if (file !== undefined && (await isStillThere(this.#target, file))) return file;
    if (file !== undefined) {
      closeFile(file);
      this.#file = undefined;
    }
    const opened = await openTarget(this.#target);
    this.#file = opened;
    if (!isSameFile(opened, this.#torn)) this.#torn = undefined;
    return opened;
  }

  #takeBatch(bytesMax: number): { readonly lines: number; readonly bytes: Buffer } {
    let text = this.#torn === undefined ? '' : '\n';
    if (this.#lost > 0) text += gapLine(this.#lost);
    let lines = 0;
    let bytes = Buffer.byteLength(text);
    for (const line of this.#queue) {
      bytes += Buffer.byteLength(line);
      if (lines > 0 && bytes > bytesMax) break;
      text += line;
      lines += 1;
      this.#queuedBytes -= line.length;
    }
    this.#queue = this.#queue.slice(lines);
    return { lines, bytes: Buffer.from(text) };
  }

  async #writeWhole(file: OpenFile, bytes: Buffer): Promise<void> {
    const endsAt = performance.now() + (this.#failure === undefined ? STUCK_MS_MAX : 0);
    for (let offset = 0; offset < bytes.length; ) {
      try {
        offset += await writeTo(file.fd, bytes.subarray(offset));
        this.#torn = bytes[offset - 1] === 0x0a ? undefined : file; // a line feed
      } catch (error) {
        if (codeOf(error) !== 'EAGAIN' || performance.now() >= endsAt) throw error;
        // The file is full for now or has failed.
        await Bun.sleep(50);
      }
    }
  }

  #noteStuck(): void {
    this.#isStuck = true;
    this.#fail('the file has not taken a line for seconds');
    const { lines } = this.#takeBatch(Number.POSITIVE_INFINITY);
    this.#settle(lines, 0);
  }

  /** `written` of the next `lines` lines are in the file, the others are lost. */
  #settle(lines: number, written: number): void {
    this.#settled += lines;
    AUDIT_LINES.add(written);
    if (written < lines) this.#lose(lines - written, { isSettled: true });
    this.#settleWaiters(this.#settled, written === lines);
  }

  #lose(lines: number, { isSettled = false } = {}): void {
    if (!isSettled) this.#settled += lines;
    this.#lost += lines;
    AUDIT_LOST.add(lines);
    this.#fail(this.#failure ?? 'the file takes lines slower than they come');
  }

  #settleWaiters(line: number, isWritten: boolean): void {
    const ready = this.#waiters.filter((waiter) => waiter.line <= line);
    if (ready.length === 0) return;
    this.#waiters = this.#waiters.filter((waiter) => waiter.line > line);
    for (const { resolve } of ready) resolve(isWritten);
  }

  #fail(reason: string): void {
    if (this.#failure === undefined) {
      AUDIT_FAILING.set(1);
      this.#report({ kind: 'failing', reason });
    }
    this.#failure = reason;
    this.#probe ??= setTimeout(() => this.#tryAgain(), PROBE_MS).unref();
  }

  /** Writes the line about the gap, so that recovery shows without a request. */
  #tryAgain(): void {
    this.#probe = undefined;
    if (this.#failure === undefined || this.#isClosed) return;
    this.#start({ isProbe: true });
    this.#probe = setTimeout(() => this.#tryAgain(), PROBE_MS).unref();
  }

  #recover(): void {
    if (this.#failure === undefined) return;
    this.#failure = undefined;
    AUDIT_FAILING.set(0);
    this.#report({ kind: 'recovered', lost: this.#lost });
    this.#lost = 0;
  }
}

function gapLine(lost: number): string {
  return formatLine({ time: new Date().toISOString(), operation: 'audit.lost', repeats: lost });
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (code === 'ENXIO') return 'nobody reads the FIFO (ENXIO)';
  if (code === 'EAGAIN') return 'its reader does not read (EAGAIN)';
  return error instanceof Error ? error.message : String(error);
}
