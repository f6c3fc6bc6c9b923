/** The operations of Bulk between HTTP and core (docs/bulk.md). */
import {
  type BulkOperationName,
  type Hash,
  PACK_MEDIA_TYPE,
  parseBulkLeaseRequest,
  parseBulkReadRequest,
  parseLeaseRequest,
} from '@holdfast/protocol';
import { leaseNodes } from '../core/packs/lease-nodes.ts';
import { leasePack } from '../core/packs/lease-pack.ts';
import { READ_AHEAD_BYTES_MAX, RUN_BYTES_MAX, readNodes } from '../core/read/read-nodes.ts';
import { SENT_BYTES } from '../metrics/server-metrics.ts';
import { askCollector, releaseBytes } from '../runtime/release-bytes.ts';
import { corsHeaders } from './cors.ts';
import {
  type AuthorizedCall,
  dispatch,
  type Operation,
  refuseQuery,
  tellRot,
  waitingUpTo,
} from './exchange.ts';
import { LONG_WORK_SECONDS_MAX } from './http-limits.ts';
import { withJsonBody } from './request-body.ts';

/** How many bytes of small records are read ahead of the socket. */
const SMALL_RECORDS_BYTES = 2 * READ_AHEAD_BYTES_MAX;
/** Large records are passed to the runtime in slices, because it copies what the socket does not accept. */
const SLICE_BYTES = 256 * 1024;

export const BULK_ANSWERS: Readonly<Record<BulkOperationName, Operation>> = {
  leaseNodes(call) {
    refuseQuery(call);
    const { core, space, refusesChanges: renewsOnly, exchange, holder } = call;
    const onRenewal = (): void => {
      exchange.isRenewal = true;
    };
    return withJsonBody(exchange, call, (bytes) => {
      const request = parseBulkLeaseRequest(bytes);
      const options = { renewsOnly, onRenewal, holder, uploadOrigin: call.uploadOrigin() };
      return dispatch(call, () => leaseNodes(core, space, request, options), tellRot);
    });
  },

  leasePack(call) {
    refuseQuery(call);
    const { core, space, packId = '', refusesChanges: renewsOnly, exchange } = call;
    return withJsonBody(exchange, call, (bytes) => {
      const { leaseDurationMs } = parseLeaseRequest(bytes);
      const lease = () => leasePack(core, space, packId, leaseDurationMs, { renewsOnly });
      return waitingUpTo(LONG_WORK_SECONDS_MAX, call, () => dispatch(call, lease, tellRot));
    });
  },

  readNodes(call) {
    refuseQuery(call);
    return withJsonBody(call.exchange, call, async (bytes) => {
      const { hashes, codecs } = parseBulkReadRequest(bytes);
      return answerPack(call, piecesOf(call, hashes, codecs.includes('zstd')));
    });
  },
};

/** A failure before the first byte gets its own response; a later one aborts the response. */
async function answerPack(
  { exchange }: AuthorizedCall,
  pieces: AsyncGenerator<Uint8Array>,
): Promise<Response> {
  const { request, connections, idleSeconds, timing, corsOrigins } = exchange;
  const startedAt = performance.now();
  const first = await pieces.next();
  timing.record('cas_dispatch', startedAt);
  const headers = {
    ...corsHeaders(corsOrigins, request),
    'content-type': PACK_MEDIA_TYPE,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'server-timing': timing.render(),
  };
  let ahead: Uint8Array | undefined = first.value;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        connections?.timeout(request, idleSeconds);
        const piece: Uint8Array | undefined = ahead ?? (await pieces.next()).value;
        ahead = undefined;
        if (piece === undefined) {
          controller.close();
          return;
        }
        exchange.sentBytes += piece.length;
        SENT_BYTES.add(piece.length);
        controller.enqueue(piece);
        askCollector(piece.length);
      },
      async cancel() {
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers });
}

/** The pieces to send. Their bytes count for the Space until the next pieces are requested. */
async function* piecesOf(
  { core, space, shares }: AuthorizedCall,
  hashes: readonly Hash[],
  acceptsZstd: boolean,
): AsyncGenerator<Uint8Array, undefined> {
  let hold = await shares.answers.reserve(space, SMALL_RECORDS_BYTES);
  const makeRoom = async (bytes: number): Promise<void> => {
    hold.release();
    hold = await shares.answers.reserve(space, Math.max(bytes, SMALL_RECORDS_BYTES));
  };
  try {
    for await (const batch of readNodes(core, space, hashes, acceptsZstd, makeRoom)) {
      yield* slicesOf(batch);
      hold.shrinkTo(SMALL_RECORDS_BYTES);
    }
  } finally {
    hold.release();
  }
}

function* joinSmall(batch: readonly Uint8Array[]): Generator<Uint8Array> {
  let small: Uint8Array[] = [];
  for (const piece of batch) {
    if (piece.length < SLICE_BYTES) {
      small.push(piece);
      continue;
    }
    if (small.length > 0) yield Buffer.concat(small);
    small = [];
    yield piece;
  }
  if (small.length > 0) yield Buffer.concat(small);
}

/** Small pieces together; a large record, which comes last, in slices. Its memory is then released. */
function* slicesOf(batch: readonly Uint8Array[]): Generator<Uint8Array> {
  const last = batch.at(-1);
  if (last === undefined || last.length <= RUN_BYTES_MAX) {
    yield* joinSmall(batch);
    return;
  }
  try {
    yield Buffer.concat(batch.slice(0, -1));
    // Copies: the runtime may still hold them when the memory is given back. A Buffer's own slice would be a view.
    for (let at = 0; at < last.length; at += SLICE_BYTES)
      yield new Uint8Array(last.subarray(at, at + SLICE_BYTES));
  } finally {
    releaseBytes(last);
  }
}
