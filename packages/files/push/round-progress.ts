/** The progress of a push that begins again because the tree changed: entries that were counted once are not counted again. */
import type { ProgressCounters, ProgressReporter, ProgressTotals } from '@holdfast/client/push';

/** The reporter of each round in turn, over one that must only ever grow. */
export class RoundProgress {
  readonly #progress: ProgressReporter;
  /** what all rounds together have told */
  #told = { files: 0, bytes: 0 };
  #rounds = 0;

  constructor(progress: ProgressReporter) {
    this.#progress = progress;
  }

  /** Call once for every round. */
  startRound(): ProgressReporter {
    this.#rounds += 1;
    if (this.#rounds === 1) return { ...this.#progress, count: (more) => this.#countFirst(more) };
    const counted = { files: 0, bytes: 0 };
    let scanned: ProgressTotals = {};
    return {
      ...this.#progress,
      count: (more) => {
        counted.files += more.files ?? 0;
        counted.bytes += more.bytes ?? 0;
        this.#countBeyond(counted, more);
      },
      // The totals of the round before stand until the tree is known again.
      expect: (totals) => {
        scanned = { ...scanned, ...totals };
      },
      phase: (phase) => {
        if (phase !== 'scan') this.#expect(scanned);
        this.#progress.phase(phase);
      },
    };
  }

  #countFirst(more: Partial<ProgressCounters>): void {
    this.#told.files += more.files ?? 0;
    this.#told.bytes += more.bytes ?? 0;
    this.#progress.count(more);
  }

  #countBeyond(counted: { readonly files: number; readonly bytes: number }, more: Partial<ProgressCounters>) {
    const files = Math.max(0, counted.files - this.#told.files);
    const bytes = Math.max(0, counted.bytes - this.#told.bytes);
    this.#told.files += files;
    this.#told.bytes += bytes;
    const { deduplicatedBytes = 0, ...rest } = more;
    this.#progress.count({
      ...rest,
      files,
      bytes,
      deduplicatedBytes: Math.min(deduplicatedBytes, bytes),
    });
  }

  #expect({ files, bytes }: ProgressTotals): void {
    this.#progress.expect({
      files: files === undefined ? undefined : Math.max(files, this.#told.files),
      bytes: bytes === undefined ? undefined : Math.max(bytes, this.#told.bytes),
    });
  }
}
