/** A request for content and its reservations: shares until the response is sent, slots until it is made. */

import type { Space } from '../core/model.ts';
import type { ReadAids } from '../core/ports.ts';
import type { ContentCaller, CopySource } from '../core/read/content-caller.ts';
import { askCollector } from '../runtime/release-bytes.ts';
import type { Hold } from '../shares/fair-shares.ts';
import type { ContentCopies } from './content-copies.ts';
import type { Exchange } from './exchange.ts';
import { SMALL_ANSWER_BYTES_MAX } from './http-limits.ts';
import type { PieceSlot } from './piece-slots.ts';
import type { SentAnswers } from './sent-answers.ts';
import type { TenantShares } from './tenant-shares.ts';

interface Held {
  readonly answers: SentAnswers;
  readonly hold: Hold;
}

export class ContentRequest implements ContentCaller {
  readonly wantsBytes: boolean;
  readonly #exchange: Exchange;
  readonly #space: Space;
  readonly #copies: ContentCopies;
  readonly #shares: TenantShares;
  /** An earlier look reserved as much as this one wants, because it was for the same range. */
  #held: Held | undefined;
  #slot: PieceSlot | undefined;

  constructor(exchange: Exchange, space: Space, copies: ContentCopies, shares: TenantShares) {
    this.#exchange = exchange;
    this.#space = space;
    this.#copies = copies;
    this.#shares = shares;
    this.wantsBytes = exchange.method !== 'HEAD';
  }

  async reserve(bytes: number, fillsScratch: boolean): Promise<ReadAids | undefined> {
    if (bytes <= SMALL_ANSWER_BYTES_MAX) return undefined;
    if (this.#held === undefined) {
      const { answers } = this.#shares;
      this.#held = { answers, hold: await answers.reserve(this.#space, bytes) };
    }
    return this.wantsBytes && fillsScratch ? this.#enterLane() : undefined;
  }

  lend(bytes: number, fillsScratch: boolean): Promise<ReadAids> | undefined {
    if (this.#held === undefined) {
      const answers = this.#shares.largeAnswers;
      const hold = answers.tryReserve(this.#space, bytes);
      if (hold === undefined) return undefined;
      this.#held = { answers, hold };
    }
    // Reads that hang in a bucket would hold the slots of all tenants.
    const { signal } = this.#exchange.request;
    return fillsScratch ? this.#enterLane() : Promise.resolve({ signal });
  }

  copy(source: CopySource, start: number, end: number): Promise<Blob> {
    const { request, connections, idleSeconds } = this.#exchange;
    const onProgress = (): void => connections?.timeout(request, idleSeconds);
    return this.#copies.take(source, start, end, { space: this.#space, signal: request.signal, onProgress });
  }

  /** Call when the response is made: the runtime has its own copy, so bytes outside lent memory are garbage to be collected soon. */
  release(body: Uint8Array | Blob): void {
    const isLent = body instanceof Blob || body.buffer === this.#slot?.scratch.buffer;
    if (!isLent && body.length > SMALL_ANSWER_BYTES_MAX) askCollector(body.length);
    this.#leaveLane();
    if (this.#held === undefined) return;
    const { request, connections } = this.#exchange;
    const { answers, hold } = this.#held;
    answers.releaseOnceSent(request, connections, hold);
  }

  /** Call if there is no answer with content. */
  drop(): void {
    this.#leaveLane();
    this.#held?.hold.release();
  }

  async #enterLane(): Promise<ReadAids> {
    const { signal } = this.#exchange.request;
    this.#slot ??= await this.#copies.slots.enter(this.#space);
    signal.throwIfAborted();
    return { scratch: this.#slot.scratch, signal };
  }

  #leaveLane(): void {
    if (this.#slot !== undefined) this.#copies.slots.leave(this.#slot);
    this.#slot = undefined;
  }
}
