/** Between web streams of bytes and generators of pieces, with backpressure both ways. */

/** Leaving the loop early cancels the stream, and nobody waits for that: its source may hang, or its connection is cut. */
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

/** Asks for a piece only when one is read. Cancelling the stream ends the generator, so that its `finally` runs. */
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
