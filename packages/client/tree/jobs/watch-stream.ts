/** Bytes on their way, for the progress of a job: what a stream waits for is named while it waits. */
import { checkMethod, checkObject } from '../../arguments.ts';
import type { ProgressReporter } from './progress.ts';

export interface StreamWaits {
  /** The cause told while the next bytes have not come. */
  readonly coming?: string | undefined;
  /** The cause told while nobody has asked for more than what came last. */
  readonly taken?: string | undefined;
  /** Worked on with each piece that comes, which is movement: a hash or a path. */
  readonly item?: string | undefined;
}

/** The bytes of `stream`, read no faster than they are asked for; `progress` hears what they wait for. */
export function watchStream(
  stream: ReadableStream<Uint8Array>,
  progress: ProgressReporter,
  waits: StreamWaits,
): ReadableStream<Uint8Array> {
  const call = { name: 'watchStream', requestOperation: 'uploadNode' } as const;
  checkMethod(call, 'the stream', stream, 'getReader');
  checkMethod(call, 'the progress', progress, 'waitFor');
  checkObject(call, 'the waits', waits);
  const { coming, taken, item } = waits;
  const reader = stream.getReader();
  let endTaking = (): void => undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        endTaking();
        const endComing = coming === undefined ? undefined : progress.waitFor(coming);
        try {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          if (item !== undefined) progress.item(item);
          if (taken !== undefined) endTaking = progress.waitFor(taken);
          controller.enqueue(value);
        } finally {
          endComing?.();
        }
      },
      async cancel(reason) {
        endTaking();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
