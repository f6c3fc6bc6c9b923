/** Request bodies: whole and bounded, or as a stream that reads nothing ahead. */
import type { IncomingMessage } from 'node:http';
import { DoorError } from './door.ts';

/** A client that sends or takes nothing for so long must not keep others waiting. */
export const SILENCE_MS_MAX = 60_000;

/** Of a file that is put; undefined where it comes in pieces. Throws DoorError 400, 411. */
export function lengthOf({ headers }: IncomingMessage): number | undefined {
  if (headers['content-range'] !== undefined) throw new DoorError(400, 'parts of a file cannot be put');
  const length = headers['content-length'];
  if (length !== undefined) return Number(length);
  if (headers['transfer-encoding'] !== undefined) return undefined;
  throw new DoorError(411, 'say the length of the body (Content-Length)');
}

/** The body whole. Throws DoorError 413. */
export async function readBody(request: IncomingMessage, bytesMax = 1024 * 1024): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of receive(request)) {
    length += part.length;
    if (length > bytesMax) throw new DoorError(413, 'the body is too long');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** Throws DoorError 400 where fewer bytes come than were said, 408, 415 for a Content-Encoding, which would be lost. */
export async function* receive(request: IncomingMessage): AsyncGenerator<Buffer, void, undefined> {
  const give = (): void => void request.destroy(new DoorError(408, 'the client sends nothing more'));
  if (!/^(?:identity)?$/i.test(request.headers['content-encoding'] ?? ''))
    throw new DoorError(415, 'send the body without a Content-Encoding');
  let silence = setTimeout(give, SILENCE_MS_MAX);
  let length = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      clearTimeout(silence);
      length += chunk.length;
      yield chunk;
      silence = setTimeout(give, SILENCE_MS_MAX);
    }
  } finally {
    clearTimeout(silence);
  }
  const said = request.headers['content-length'];
  if (said !== undefined && length !== Number(said)) throw new DoorError(400, 'the body ended too early');
}

/** Nothing is read ahead. */
export function toStream(chunks: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return();
      },
    },
    { highWaterMark: 0 },
  );
}
