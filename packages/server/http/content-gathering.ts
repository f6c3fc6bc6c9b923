/**
 * Where the content of one answer is put together before it is sent, when its store has it far away: in memory within a bound,
 * else in a file.
 */
import type { ContentCaller } from '../core/ports.ts';
import type { ContentMemory } from './content-memory.ts';
import type { ContentSpool } from './content-spool.ts';
import { readExactly, type StreamWatch } from './content-stream.ts';
import type { Exchange } from './exchange.ts';
import { BUFFERED_ANSWER_BYTES_MAX, IDLE_SECONDS_MAX, SMALL_ANSWER_BYTES_MAX } from './http-limits.ts';

/** What the answers of one process share. */
export interface GatheringPlaces {
  readonly memory: ContentMemory;
  readonly spool: ContentSpool;
  /** answers on their way to their readers right now */
  readonly countSending: (exchange: Exchange) => number;
}

export class ContentGathering implements ContentCaller {
  private readonly exchange: Exchange;
  private readonly places: GatheringPlaces;
  private hasPlace = false;

  constructor(exchange: Exchange, places: GatheringPlaces) {
    this.exchange = exchange;
    this.places = places;
  }

  get signal(): AbortSignal {
    return this.exchange.request.signal;
  }

  mayGather(length: number): boolean {
    const { memory, countSending } = this.places;
    // HEAD wants no bytes at all.
    if (length > BUFFERED_ANSWER_BYTES_MAX || this.exchange.request.method === 'HEAD') return false;
    if (length > SMALL_ANSWER_BYTES_MAX) this.hasPlace ||= memory.tryTake(countSending(this.exchange));
    return this.hasPlace || length <= SMALL_ANSWER_BYTES_MAX;
  }

  /** Rejects as `readExactly` does, or with the disk's error. */
  gather(stream: ReadableStream<Uint8Array>, length: number): Promise<Uint8Array | Blob> {
    const { request, connections } = this.exchange;
    const watch: StreamWatch = {
      signal: request.signal,
      onProgress: () => connections?.timeout(request, IDLE_SECONDS_MAX),
    };
    return this.mayGather(length)
      ? collect(stream, length, watch)
      : this.places.spool.hold(stream, length, watch);
  }

  /** The answer is handed over, or has failed. */
  end(): void {
    if (this.hasPlace) this.places.memory.give();
    this.hasPlace = false;
  }
}

async function collect(
  stream: ReadableStream<Uint8Array>,
  length: number,
  watch: StreamWatch,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  await readExactly(stream, length, watch, (piece) => {
    bytes.set(piece, at);
    at += piece.length;
  });
  return bytes;
}
