/** Every event as one line of JSON. */
import type { ProgressEvent } from '@holdfast/client';
import { isSaidWhenQuiet, type ProgressView, type ViewOutput } from './view.ts';

export class JsonView implements ProgressView {
  readonly #output: ViewOutput;
  readonly #isQuiet: boolean;

  constructor(output: ViewOutput, isQuiet: boolean) {
    this.#output = output;
    this.#isQuiet = isQuiet;
  }

  take(event: ProgressEvent): void {
    if (this.#isQuiet && !isSaidWhenQuiet(event)) return;
    this.#output.write(`${JSON.stringify(event)}\n`);
  }

  close(): void {
    // Nothing was changed.
  }
}
