/** Turns web streams of bytes into generators of pieces and back, with backpressure both ways. */

/** Leaving the loop early cancels the stream without waiting for it, because its source may hang. */
export async function* readPieces(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  let isDone = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isDone = done;
      if (done) return;
      yield value;
    }
  } finally {
    if (!isDone) reader.cancel().catch(() => undefined);
  }
}

/** Asks the generator for a piece only when the stream is read. Cancelling the stream ends the generator: its `finally` runs. */
export function toByteStream(pieces: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
