/** The embedded upload target (docs/api.md, The upload target): PUT /uploads/<token>, no bearer token. */
import { ApiError } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import { TOO_MANY_PUTS, UPLOADS_OF_GENERATION_MAX } from '../core/lease/upload-judge.ts';
import type { PackGrant, UploadGrant } from '../core/lease/upload-token.ts';
import type { Generation } from '../core/model.ts';
import { receiveUpload } from '../core/packs/receive-upload.ts';
import type { UploadBody } from '../core/upload-ports.ts';
import { UPLOADS_IN_FLIGHT } from '../metrics/server-metrics.ts';
import { exhausted } from '../shares/share-tree.ts';
import { type Exchange, emptyAnswer } from './exchange.ts';
import {
  SMALL_UPLOAD_BYTES_MAX,
  UPLOAD_DURATION_MS_MAX,
  UPLOAD_STALL_SECONDS_MAX,
  WHOLE_UPLOAD_BYTES_MAX,
  WHOLE_UPLOAD_SECONDS_MAX,
} from './http-limits.ts';
import type { WatchedBody } from './request-body.ts';
import { declaredLengthOf, readWhole } from './request-body.ts';
import type { TenantShares } from './tenant-shares.ts';

/** The path of an upload URL before its token. */
export const UPLOADS_PATH = '/uploads/';

/** Throws or rejects if the grant is no longer valid. */
export type CheckUpload = (grant: UploadGrant | PackGrant) => Awaitable<void>;

/** Receives PUTs, each in the share of the App and Space that its URL's token names. */
export class UploadTarget {
  readonly #shares: TenantShares;
  readonly #check: CheckUpload;
  /** PUTs that are being received, and those that wait for one of their places, by upload generation */
  readonly #receiving = new Map<Generation, PutsOfGeneration>();

  constructor(shares: TenantShares, check: CheckUpload = () => undefined) {
    this.#shares = shares;
    this.#check = check;
  }

  async answer(core: Core, exchange: Exchange, token: string): Promise<Response> {
    const { request, connections, idleSeconds } = exchange;
    const declaredLength = declaredLengthOf(request);
    const isSmall = declaredLength !== undefined && declaredLength <= SMALL_UPLOAD_BYTES_MAX;
    const body = this.#shares.pace.watch();
    let leave = (): void => undefined;
    try {
      await receiveUpload(core, {
        token,
        contentType: request.headers.get('content-type') ?? undefined,
        ifNoneMatch: request.headers.get('if-none-match') ?? undefined,
        declaredLength,
        body: bodyOf(exchange, body, declaredLength),
        onGrant: (grant) => {
          exchange.space = grant.space;
          return this.#check(grant);
        },
        admit: async (grant) => {
          leave = await this.#enter(grant, body);
        },
      });
    } finally {
      leave();
      body.end();
      if (!isSmall) connections?.timeout(request, idleSeconds);
    }
    return emptyAnswer(exchange, 200);
  }

  /** Throws or rejects with RESOURCE_EXHAUSTED. Resolves with a function to call when the upload ends. */
  async #enter({ generation, space }: UploadGrant | PackGrant, body: WatchedBody): Promise<() => void> {
    await this.#takePlace(generation);
    try {
      const onReclaim = (): void => body.giveWay();
      const hold = await this.#shares.uploads.acquire(space.appId, space.spaceId, 1, { onReclaim });
      UPLOADS_IN_FLIGHT.add(1);
      return () => {
        hold.release();
        UPLOADS_IN_FLIGHT.add(-1);
        this.#leavePlace(generation);
      };
    } catch (error) {
      this.#leavePlace(generation);
      throw error;
    }
  }

  /** A PUT beyond the limit waits briefly: overlapping PUTs of a small node end at once, and then it learns the outcome. */
  async #takePlace(generation: Generation): Promise<void> {
    const puts = this.#receiving.get(generation) ?? { received: 0, waiting: [] };
    this.#receiving.set(generation, puts);
    if (puts.received < UPLOADS_OF_GENERATION_MAX) {
      puts.received += 1;
      return;
    }
    // Few wait for a place, and for a second only, because the runtime keeps their bytes in memory.
    if (puts.waiting.length >= 12) throw exhausted(TOO_MANY_PUTS);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const enter = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      puts.waiting.splice(puts.waiting.indexOf(enter), 1);
      reject(exhausted(TOO_MANY_PUTS));
    }, 1000);
    puts.waiting.push(enter);
    await promise;
  }

  /** The place goes to the PUT that has waited longest. */
  #leavePlace(generation: Generation): void {
    const puts = this.#receiving.get(generation);
    const next = puts?.waiting.shift();
    if (next !== undefined) next();
    else if (puts !== undefined && --puts.received === 0) this.#receiving.delete(generation);
  }
}

interface PutsOfGeneration {
  received: number;
  /** called when a place is free */
  readonly waiting: (() => void)[];
}

function bodyOf(
  exchange: Exchange,
  watched: WatchedBody,
  declaredLength: number | undefined,
): UploadBody | null {
  const { request, connections } = exchange;
  if (declaredLength !== undefined && declaredLength <= WHOLE_UPLOAD_BYTES_MAX) {
    if (declaredLength > SMALL_UPLOAD_BYTES_MAX) connections?.timeout(request, WHOLE_UPLOAD_SECONDS_MAX);
    // Reads a small body in one piece, because a stream would cost more. Rejects if the body is cut off.
    return async () => {
      const bytes = await readWhole(request, watched, WHOLE_UPLOAD_BYTES_MAX, overlong);
      exchange.receivedBytes = bytes.length;
      return bytes;
    };
  }
  return request.body === null ? null : endStalled(request.body, watched, exchange);
}

/** HTTP framing keeps a body to its declared length. */
const overlong = (): ApiError =>
  new ApiError('INVALID_REQUEST', 'the body is longer than its declared length');

/**
 * The same body with time limits: each piece must follow within `UPLOAD_STALL_SECONDS_MAX`, and all within `UPLOAD_DURATION_MS_MAX`.
 * After that the runtime closes the connection, which errors the body. The first piece is requested at once: from then on the runtime
 * reads no faster than we do.
 */
function endStalled(
  body: ReadableStream<Uint8Array>,
  watched: WatchedBody,
  exchange: Exchange,
): ReadableStream<Uint8Array> {
  const { request, connections } = exchange;
  const lastExtensionAt = performance.now() + UPLOAD_DURATION_MS_MAX;
  const reader = body.getReader();
  let first: ReturnType<typeof reader.read> | undefined = reader.read();
  // An unused body may break off.
  first.catch(() => undefined);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (performance.now() < lastExtensionAt) connections?.timeout(request, UPLOAD_STALL_SECONDS_MAX);
        const reading = first ?? reader.read();
        first = undefined;
        const next = await watched.bring(reading);
        if (next.done) return controller.close();
        watched.note(next.value.length);
        exchange.receivedBytes += next.value.length;
        controller.enqueue(next.value);
      },
      async cancel(reason) {
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
