/** The audit log of one process: one line for every change and refusal, and optionally for reads. */

import { SECOND_MS } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import { LogRepeats, REAL_WORLD, type RepeatsWorld } from '../log-repeats.ts';
import { AUDIT_SUPPRESSED } from '../metrics/server-metrics.ts';
import { type AuditEvent, type AuditLine, formatLine, kindOf } from './audit-event.ts';
import { AuditSink, type SinkReport } from './audit-sink.ts';
import type { AuditTarget } from './sink-file.ts';

export interface AuditOptions {
  readonly target: AuditTarget;
  /** reads and renewals are written too */
  readonly withReads: boolean;
  /** no change is acknowledged without its line, and none starts while lines cannot be written */
  readonly isRequired: boolean;
  /** that share the bound of what strangers may write */
  readonly processes?: number;
}

/** Each change has its own line. For equal refusals and reads, the first has its own, and the rest of a time window share one. */
export type AuditRank = 'change' | 'counted';

export class AuditLog {
  readonly withReads: boolean;
  readonly isRequired: boolean;
  readonly #sink: AuditSink;
  // Every line is written within a second of its event: one window, the next look at it, and the gathering of lines.
  // In one window 100 unverified callers are told apart, for each kind of refusal.
  readonly #repeats = new LogRepeats(400, REAL_WORLD, 100);
  readonly #strangers: StrangerBound;
  /** as they were written, so that no caller's long strings stay in memory */
  readonly #recent: string[] = [];

  private constructor(options: AuditOptions, sink: AuditSink) {
    this.withReads = options.withReads;
    this.isRequired = options.isRequired;
    this.#sink = sink;
    const summarize = (repeats: number): void => {
      const time = new Date().toISOString();
      this.#push({ time, operation: 'audit.suppressed', verified: false, repeats });
    };
    this.#strangers = new StrangerBound(options.processes ?? 1, summarize, REAL_WORLD);
  }

  /** Throws ServeError if the file can never be written; a temporary failure is retried. */
  static async open(options: AuditOptions, report: (report: SinkReport) => void): Promise<AuditLog> {
    const sink = new AuditSink(options.target, report);
    try {
      await sink.open();
    } catch (error) {
      throw explain(options.target, error);
    }
    return new AuditLog(options, sink);
  }

  /** Why lines cannot be written now. */
  get failure(): string | undefined {
    return this.#sink.failure;
  }

  get refusesChanges(): boolean {
    return this.isRequired && this.failure !== undefined;
  }

  note(event: AuditEvent, rank: AuditRank): void {
    const line: AuditLine = { time: new Date().toISOString(), ...event };
    if (rank === 'change') {
      this.#write(line);
      return;
    }
    const family = event.verified === false ? `${event.operation} ${event.status} ${event.error}` : undefined;
    this.#repeats.take(
      kindOf(event),
      (repeats) => this.#write(repeats === undefined ? line : { ...line, repeats }),
      family,
    );
  }

  /** Resolves when all lines so far are written; false if some were lost. */
  written(): Promise<boolean> {
    return this.#sink.written();
  }

  recent(limit: number): readonly AuditLine[] {
    const newest = this.#recent.slice(-limit).reverse();
    return newest.map((text) => JSON.parse(text) as AuditLine);
  }

  reopen(): void {
    this.#sink.reopen();
  }

  async close(): Promise<void> {
    this.#repeats.flush();
    this.#strangers.flush();
    await this.#sink.close();
  }

  writeAtExit(): void {
    this.#repeats.flush();
    this.#strangers.flush();
    this.#sink.writeAtExit();
  }

  #write(line: AuditLine): void {
    const isStranger = line.verified === false;
    const isWanted =
      !isStranger || this.#strangers.admits(Buffer.byteLength(formatLine(line)), line.repeats ?? 1);
    if (isWanted) this.#push(line);
  }

  #push(line: AuditLine): void {
    const text = formatLine(line);
    this.#recent.push(text);
    if (this.#recent.length > 1000) this.#recent.shift();
    this.#sink.push(text);
  }
}

function explain(target: AuditTarget, error: unknown): ServeError {
  const code = codeOf(error);
  const name = target.kind === 'file' ? target.path : 'on stdout';
  const advice = ADVICE.get(code) ?? 'its folder must exist, and this user must be allowed to write there';
  return new ServeError(`the audit log ${name} cannot be written (${code}): ${advice}`);
}

const ADVICE = new Map<string | undefined, string>([
  ['EISDIR', 'it is a folder; name a file in it'],
  ['ELOOP', 'it is a link that leads to itself; name a file'],
  ['ENAMETOOLONG', 'the name is longer than the system allows; choose a shorter one'],
  ['ENXIO', 'it is a socket; name a file or a FIFO'],
]);

/** One limit for the lines of all unverified callers, so that strangers cannot fill the disk. A line reports how many were left out. */
export class StrangerBound {
  readonly #world: RepeatsWorld;
  readonly #bytesPerMs: number;
  readonly #burstBytes: number;
  readonly #summarize: (suppressed: number) => void;
  #leftBytes: number;
  #filledAt: number;
  #suppressed = 0;
  #isScheduled = false;

  /** `summarize` writes the line about the omitted ones. */
  constructor(processes: number, summarize: (suppressed: number) => void, world: RepeatsWorld) {
    this.#world = world;
    this.#summarize = summarize;
    // All processes of a server share this limit.
    const bytesPerSecond = (16 * 1024) / processes;
    this.#bytesPerMs = bytesPerSecond / SECOND_MS;
    // After a quiet time, 8 seconds' worth may come at once.
    this.#burstBytes = bytesPerSecond * 8;
    this.#leftBytes = this.#burstBytes;
    this.#filledAt = world.now();
  }

  /** Whether a line of this length, standing for `events`, may be written; if not, they are counted. */
  admits(bytes: number, events: number): boolean {
    const now = this.#world.now();
    const filled = this.#leftBytes + (now - this.#filledAt) * this.#bytesPerMs;
    this.#leftBytes = Math.min(this.#burstBytes, filled);
    this.#filledAt = now;
    if (bytes <= this.#leftBytes) {
      this.#leftBytes -= bytes;
      return true;
    }
    AUDIT_SUPPRESSED.add(events);
    this.#suppressed += events;
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      // Every line is written within a second.
      this.#world.schedule(() => {
        this.#isScheduled = false;
        this.flush();
      }, 500);
    }
    return false;
  }

  flush(): void {
    const suppressed = this.#suppressed;
    this.#suppressed = 0;
    if (suppressed > 0) this.#summarize(suppressed);
  }
}
