/** The embedded upload target (docs/api.md, The upload target): PUT /uploads/<token>, no bearer token. */
import type { Core } from '../core/core.ts';
import type { UploadBody } from '../core/ports.ts';
import { receiveUpload } from '../core/receive-upload.ts';
import { type Connections, type Exchange, emptyAnswer } from './exchange.ts';
import {
  IDLE_SECONDS_MAX,
  SMALL_UPLOAD_BYTES_MAX,
  UPLOAD_DURATION_MS_MAX,
  UPLOAD_STALL_SECONDS_MAX,
  WHOLE_UPLOAD_BYTES_MAX,
  WHOLE_UPLOAD_SECONDS_MAX,
} from './http-limits.ts';
import { declaredLengthOf } from './request-body.ts';
import type { RequestRecord } from './request-record.ts';

/** The path of an upload URL before its token. */
export const UPLOADS_PATH = '/uploads/';

export async function answerUpload(core: Core, exchange: Exchange, token: string): Promise<Response> {
  const { request, connections } = exchange;
  const declaredLength = declaredLengthOf(request);
  const isSmall = declaredLength !== undefined && declaredLength <= SMALL_UPLOAD_BYTES_MAX;
  try {
    await receiveUpload(core, {
      token,
      contentType: request.headers.get('content-type') ?? undefined,
      ifNoneMatch: request.headers.get('if-none-match') ?? undefined,
      declaredLength,
      body: bodyOf(exchange, declaredLength),
      onGrant: ({ space }) => {
        exchange.record.space = space;
      },
    });
  } finally {
    if (!isSmall) connections?.timeout(request, IDLE_SECONDS_MAX);
  }
  return emptyAnswer(exchange, 200);
}

function bodyOf(
  { request, connections, record }: Exchange,
  declaredLength: number | undefined,
): UploadBody | null {
  if (declaredLength !== undefined && declaredLength <= WHOLE_UPLOAD_BYTES_MAX) {
    if (declaredLength > SMALL_UPLOAD_BYTES_MAX) connections?.timeout(request, WHOLE_UPLOAD_SECONDS_MAX);
    // Reads a small body in one piece, because a stream would cost more than its bytes. A body that is cut off rejects.
    return async () => {
      const bytes = new Uint8Array(await request.arrayBuffer());
      record.receivedBytes = bytes.length;
      return bytes;
    };
  }
  if (connections === undefined || request.body === null) return request.body;
  return endStalled(request.body, request, connections, record);
}

/**
 * The same body; each piece that arrives gives its sender `UPLOAD_STALL_SECONDS_MAX` for the next, until
 * `UPLOAD_DURATION_MS_MAX` is over. A connection out of time is closed by the runtime, which errors the body.
 */
function endStalled(
  body: ReadableStream<Uint8Array>,
  request: Request,
  connections: Connections,
  record: RequestRecord,
): ReadableStream<Uint8Array> {
  const lastExtensionAt = performance.now() + UPLOAD_DURATION_MS_MAX;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reader ??= body.getReader();
        if (performance.now() < lastExtensionAt) connections.timeout(request, UPLOAD_STALL_SECONDS_MAX);
        const next = await reader.read();
        if (next.done) return controller.close();
        record.receivedBytes += next.value.length;
        controller.enqueue(next.value);
      },
      async cancel(reason) {
        await (reader ?? body).cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
