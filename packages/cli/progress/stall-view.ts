/** Of a command that is short by nature: nothing, unless it stands still. */
import type { ProgressEvent } from '@holdfast/client';
import type { ProgressView } from './view.ts';

export class StallView implements ProgressView {
  readonly #inner: ProgressView;

  /** `inner` says it. */
  constructor(inner: ProgressView) {
    this.#inner = inner;
  }

  take(event: ProgressEvent): void {
    if (event.type === 'stall' || event.type === 'resumed' || event.type === 'warning')
      this.#inner.take(event);
  }

  close(): void {
    this.#inner.close();
  }
}
