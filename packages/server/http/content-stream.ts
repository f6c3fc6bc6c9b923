/** Content that arrives as a stream: read to its end or its reader's, never more of it than was announced. */

export interface StreamWatch {
  /** aborts when the caller has gone: then nobody needs the rest */
  readonly signal: AbortSignal;
  /** told of every piece, so that a caller who waits is not taken for dead */
  onProgress(): void;
}

export class LengthMismatch extends Error {
  override readonly name = 'LengthMismatch';
}

class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

/**
 * Hands the pieces to `take`, one after another, each when the one before is taken. Rejects with the stream's error, with
 * LengthMismatch when it does not have exactly `length` bytes, or when the caller goes; the stream is cancelled then, at
 * once, so that the store behind it stops sending.
 */
export async function readExactly(
  stream: ReadableStream<Uint8Array>,
  length: number,
  watch: StreamWatch,
  take: (piece: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const { signal } = watch;
  const reader = stream.getReader();
  const cancel = (): Promise<void> => reader.cancel().catch(() => undefined);
  const onAbort = (): void => void cancel();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    let received = 0;
    while (!signal.aborted) {
      const next = await reader.read();
      if (next.done) break;
      received += next.value.length;
      if (received > length) throw new LengthMismatch(`content of ${length} bytes came as more`);
      await take(next.value);
      watch.onProgress();
    }
    if (signal.aborted) throw new CallerGone('the caller went away before its answer');
    if (received !== length) throw new LengthMismatch(`content of ${length} bytes came as ${received}`);
  } catch (error) {
    await cancel();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
