/** Waits until all output on a standard stream is written, or has failed, before the process ends. */

/** Follows every write on `stream` to its own end: a later end or an `error` event says nothing of the earlier ones. */
export class WrittenOutput {
  #pending = 0;
  #error: Error | undefined;
  #onSettled: () => void = () => undefined;

  constructor(stream: NodeJS.WriteStream) {
    const write = stream.write.bind(stream) as (
      chunk: string | Uint8Array,
      encoding: BufferEncoding | undefined,
      done: (error?: Error | null) => void,
    ) => boolean;
    stream.write = (
      chunk: string | Uint8Array,
      encodingOrDone?: BufferEncoding | ((error?: Error | null) => void),
      done?: (error?: Error | null) => void,
    ): boolean => {
      const [encoding, tell] =
        typeof encodingOrDone === 'function' ? [undefined, encodingOrDone] : [encodingOrDone, done];
      this.#pending += 1;
      return write(chunk, encoding, (error) => {
        this.#pending -= 1;
        this.#error ??= error ?? undefined;
        tell?.(error);
        if (this.#pending === 0) this.#onSettled();
      });
    };
  }

  /** Resolves when nothing is on its way any more: with the first failure, if there was one. */
  async settled(): Promise<Error | undefined> {
    while (this.#pending > 0) {
      await new Promise<void>((resolve) => {
        this.#onSettled = resolve;
      });
    }
    return this.#error;
  }
}
