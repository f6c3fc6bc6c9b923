/** The operations of Bulk between HTTP and core (docs/bulk.md, Requests). */
import {
  type BulkOperationName,
  PACK_MEDIA_TYPE,
  parseBulkLeaseRequest,
  parseBulkReadRequest,
  parseLeaseRequest,
} from '@holdfast/protocol';
import { leaseNodes } from '../core/lease-nodes.ts';
import { leasePack } from '../core/lease-pack.ts';
import type { Awaitable } from '../core/ports.ts';
import { READ_AHEAD_BYTES_MAX, readNodes } from '../core/read-nodes.ts';
import { SENT_BYTES } from '../metrics/server-metrics.ts';
import { corsHeaders } from './cors.ts';
import { IDLE_SECONDS_MAX, VALIDATION_SECONDS_MAX } from './http-limits.ts';
import { withJsonBody } from './request-body.ts';
import { type AuthorizedCall, dispatch, refuseQuery, tellRot, waitingUpTo } from './space-operations.ts';

type BulkAnswer = (call: AuthorizedCall, packId: string | undefined) => Awaitable<Response>;

export const BULK_ANSWERS: Readonly<Record<BulkOperationName, BulkAnswer>> = {
  leaseNodes(call) {
    refuseQuery(call);
    const { core, space, refusesChanges: renewsOnly, exchange } = call;
    const onRenewal = (): void => {
      exchange.record.isRenewal = true;
    };
    return withJsonBody(exchange, call, (bytes) => {
      const request = parseBulkLeaseRequest(bytes);
      const options = { renewsOnly, onRenewal, uploadOrigin: call.uploadOrigin() };
      return dispatch(call, () => leaseNodes(core, space, request, options), tellRot);
    });
  },

  leasePack(call, packId = '') {
    refuseQuery(call);
    const { core, space, refusesChanges: renewsOnly, exchange } = call;
    return withJsonBody(exchange, call, (bytes) => {
      const { leaseDurationMs } = parseLeaseRequest(bytes);
      const lease = () => leasePack(core, space, packId, leaseDurationMs, { renewsOnly });
      return waitingUpTo(VALIDATION_SECONDS_MAX, call, () => dispatch(call, lease, tellRot));
    });
  },

  readNodes(call) {
    refuseQuery(call);
    return withJsonBody(call.exchange, call, async (bytes) => {
      const { hashes, codecs } = parseBulkReadRequest(bytes);
      return answerPack(call, readNodes(call.core, call.space, hashes, codecs.includes('zstd')));
    });
  },
};

/** What fails before the first byte is an answer of its own; what fails later breaks the answer off. */
async function answerPack(call: AuthorizedCall, pieces: AsyncGenerator<Uint8Array[]>): Promise<Response> {
  const { exchange, space, shares } = call;
  const { request, connections, record, timing, corsOrigins } = exchange;
  const startedAt = performance.now();
  // So much is read ahead of the socket.
  const hold = await shares.answers.reserve(space, 2 * READ_AHEAD_BYTES_MAX);
  const end = (): void => hold.release();
  try {
    const first = await pieces.next();
    timing.record('cas_dispatch', startedAt);
    const headers = {
      ...corsHeaders(corsOrigins, request),
      'content-type': PACK_MEDIA_TYPE,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'server-timing': timing.render(),
    };
    const next = async (): Promise<Uint8Array | undefined> => {
      const { value } = await pieces.next();
      return value && joined(value);
    };
    let ahead: Uint8Array | undefined = joined(first.value ?? []);
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          connections?.timeout(request, IDLE_SECONDS_MAX);
          try {
            const piece = ahead ?? (await next());
            ahead = undefined;
            if (piece === undefined) {
              end();
              controller.close();
              return;
            }
            record.sentBytes += piece.length;
            SENT_BYTES.add(piece.length);
            controller.enqueue(piece);
          } catch (error) {
            end();
            throw error;
          }
        },
        async cancel() {
          end();
          await pieces.return(undefined);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers });
  } catch (error) {
    end();
    throw error;
  }
}

const joined = (pieces: readonly Uint8Array[]): Uint8Array => Buffer.concat(pieces);
