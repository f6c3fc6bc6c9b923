/** Whoever logs never waits: lines that cannot be written wait in memory, up to a bound. A line says how many were dropped. */
import { openStreamOutput, type StreamOutput } from './standard-stream.ts';

const QUEUE_BYTES_MAX = 1024 * 1024;

export interface LogOutputOptions {
  /** descriptor */
  readonly fd: number;
  /** the line that says how many are missing; ends with a line feed */
  readonly describeGap: (dropped: number) => string;
  /** is told of lines that are lost */
  readonly noteDropped: (lines: number) => void;
}

export class LogOutput {
  readonly #options: LogOutputOptions;
  /** whole lines, but for the first, of which a part may be written */
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  #output: StreamOutput | undefined;
  /** bytes that another thread is writing; undefined: none does */
  #beingWritten: number | undefined;
  #timer: Timer | undefined;
  /** lines lost since the last line that says so */
  #dropped = 0;

  constructor(options: LogOutputOptions) {
    this.#options = options;
  }

  /** Takes one line that ends with a line feed. Named and shaped as the logger wants it. */
  write(line: string): void {
    this.#tellOfGap();
    if (this.#queuedBytes >= QUEUE_BYTES_MAX) this.#drop(1);
    else this.#enqueue(line);
    if (this.#beingWritten !== undefined || this.#timer !== undefined) return;
    // What is said right before the process ends is then still here, for `writeAtExit`.
    if (this.#output?.isElsewhere) this.#pumpLater(0);
    else this.#pump();
  }

  /** The process ends: waits for the reader, but not for long, and only this once. */
  writeAtExit(): void {
    clearTimeout(this.#timer);
    if (this.#beingWritten !== undefined) this.#take(this.#beingWritten);
    // A reader at the end of the process gets a second.
    const endsAt = performance.now() + 1000;
    try {
      const output = this.#open();
      while (this.#queue.length > 0) {
        const taken = output.writeLast(this.#nextBatch(output));
        if (taken !== 'full') this.#take(taken);
        else if (performance.now() >= endsAt) return;
        else Bun.sleepSync(10);
      }
    } catch {
      // Nobody is left who could be told.
    }
  }

  #enqueue(line: string): void {
    const bytes = Buffer.from(line);
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
  }

  #drop(lines: number): void {
    this.#dropped += lines;
    this.#options.noteDropped(lines);
  }

  #tellOfGap(): void {
    if (this.#dropped === 0 || this.#queuedBytes >= QUEUE_BYTES_MAX) return;
    const dropped = this.#dropped;
    this.#dropped = 0;
    this.#enqueue(this.#options.describeGap(dropped));
  }

  /** Writes for as long as the stream takes bytes at once; what then is left is tried again later. */
  #pump(): void {
    this.#timer = undefined;
    try {
      const output = this.#open();
      while (this.#queue.length > 0) {
        const batch = this.#nextBatch(output);
        const taken = output.write(batch);
        if (typeof taken === 'number') {
          this.#take(taken);
          this.#tellOfGap();
          continue;
        }
        if (taken === 'full') this.#pumpLater();
        else this.#awaitWrite(taken, batch.length);
        return;
      }
    } catch {
      this.#fail();
    }
  }

  #awaitWrite(writing: Promise<number | 'full'>, bytes: number): void {
    this.#beingWritten = bytes;
    writing.then(
      (taken) => {
        this.#beingWritten = undefined;
        if (taken === 'full') return this.#pumpLater();
        this.#take(taken);
        this.#tellOfGap();
        if (this.#queue.length > 0) this.#pump();
      },
      () => {
        this.#beingWritten = undefined;
        this.#fail();
      },
    );
  }

  #pumpLater(delayMs = 50): void {
    this.#timer = setTimeout(() => this.#pump(), delayMs).unref();
  }

  /** The stream takes no lines at all: a full disk, a reader that is gone. What comes next is tried anew. */
  #fail(): void {
    this.#drop(this.#queue.length);
    this.#queue = [];
    this.#queuedBytes = 0;
  }

  #open(): StreamOutput {
    this.#output ??= openStreamOutput(this.#options.fd);
    return this.#output;
  }

  #nextBatch({ wholeBytesMax }: StreamOutput): Buffer {
    const [first = Buffer.alloc(0), ...rest] = this.#queue.slice(0, wholeBytesMax);
    const lines = [first];
    let bytes = first.length;
    for (const line of rest) {
      bytes += line.length;
      if (bytes > wholeBytesMax) break;
      lines.push(line);
    }
    return lines.length === 1 ? first : Buffer.concat(lines);
  }

  /** `bytes` of what is queued are written. */
  #take(bytes: number): void {
    this.#queuedBytes -= bytes;
    let left = bytes;
    let whole = 0;
    for (const line of this.#queue) {
      if (line.length > left) break;
      left -= line.length;
      whole += 1;
    }
    this.#queue.splice(0, whole);
    const [first] = this.#queue;
    if (left > 0 && first !== undefined) this.#queue[0] = first.subarray(left);
  }
}
