/** Values as they come, each with the SHA-256 that it must have. */
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { DoorError } from '../door.ts';
import { lengthOf, receive } from '../received-body.ts';
import type { ReceivedValue, ReceivedValues } from '../received-values.ts';

export interface ValueRules {
  /** Throws 413 above it. */
  readonly bytesMax?: number | undefined;
  readonly sha256?: string | undefined;
  /** of an answer to other bytes */
  readonly mismatchStatus?: 400 | 422;
  /** stands before the value */
  readonly head?: Uint8Array | undefined;
}

/** Throws DoorError 400, 408, 411, 413, 422. */
export async function takeValue(
  values: ReceivedValues,
  request: IncomingMessage,
  rules: ValueRules,
): Promise<ReceivedValue> {
  const { sha256, head = new Uint8Array(), bytesMax = Number.POSITIVE_INFINITY } = rules;
  const length = lengthOf(request);
  const requireRoom = (bytes: number): void => {
    if (bytes > bytesMax) throw new DoorError(413, `the value is larger than ${bytesMax} bytes`);
  };
  requireRoom(length ?? 0);
  const hash = createHash('sha256');
  const watch = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    if (head.length > 0) yield head;
    let count = 0;
    for await (const chunk of receive(request)) {
      count += chunk.length;
      requireRoom(count);
      if (sha256 !== undefined) hash.update(chunk);
      yield chunk;
    }
  };
  const value = await values.take(watch(), length === undefined ? undefined : length + head.length);
  const is = sha256 === undefined ? undefined : hash.digest('hex');
  if (is !== sha256) throw new DoorError(rules.mismatchStatus ?? 400, `the SHA-256 of what came is ${is}`);
  return value;
}
