/** Values as they come: small ones in memory, others stored on the way, and each with the SHA-256 that it must have. */
import { createHash, type Hash as Sha256 } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CHUNK_BYTES_MIN, type Client, type TreeEdit, type TreeItem } from '@holdfast/client/internal';
import { LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import { DoorError } from '../door.ts';
import { readBody, receive, toStream } from '../received-body.ts';
import { StoredValues } from '../stored-values.ts';

export interface ValueRules {
  /** Throws 413 above it. */
  readonly bytesMax?: number | undefined;
  readonly sha256?: string | undefined;
  /** of an answer to other bytes */
  readonly mismatchStatus?: 400 | 422;
  /** stands before the value */
  readonly head?: Uint8Array | undefined;
}

/** A value that can be set by an edit. */
export interface Value {
  readonly bytes: number;
  set(path: string): TreeEdit;
}

/** It is here before its lease ends. */
const SOON_BYTES_MAX = 64 * 1024 * 1024;

export class Values {
  readonly #stored: StoredValues;

  constructor(client: Client) {
    this.#stored = new StoredValues(client);
  }

  /** Throws DoorError 400, 408, 411, 413, 422. */
  async take(request: IncomingMessage, rules: ValueRules): Promise<Value> {
    const length = lengthOf(request);
    const { sha256, head = new Uint8Array(), bytesMax = Number.POSITIVE_INFINITY } = rules;
    if (length !== undefined && length > bytesMax) throw tooLarge(bytesMax);
    const check = (is: string): void => {
      if (sha256 === undefined || is === sha256) return;
      throw new DoorError(rules.mismatchStatus ?? 400, `the SHA-256 of what came is ${is}`);
    };
    if (length !== undefined && length <= CHUNK_BYTES_MIN - head.length) {
      const body = await readBody(request, length);
      if (sha256 !== undefined) check(createHash('sha256').update(body).digest('hex'));
      const bytes = head.length === 0 ? body : Buffer.concat([head, body]);
      return { bytes: bytes.length, set: (path) => ({ op: 'set', path, bytes }) };
    }
    const hash = sha256 === undefined ? undefined : createHash('sha256');
    const isSoon = length !== undefined && length <= SOON_BYTES_MAX;
    const node = await this.#stored.store(toStream(watch(request, hash, head, bytesMax)), {
      isLarge: true,
      leaseDurationMs: isSoon ? LEASE_DURATION_MS_MIN : LEASE_DURATION_MS_MAX,
    });
    if (hash !== undefined) check(hash.digest('hex'));
    return { bytes: 0, set: (path) => setNode(path, node) };
  }
}

function setNode(path: string, node: TreeItem): TreeEdit {
  return { op: 'set', path, node };
}

async function* watch(
  request: IncomingMessage,
  hash: Sha256 | undefined,
  head: Uint8Array,
  bytesMax: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (head.length > 0) yield head;
  let length = 0;
  for await (const chunk of receive(request)) {
    length += chunk.length;
    if (length > bytesMax) throw tooLarge(bytesMax);
    hash?.update(chunk);
    yield chunk;
  }
}

function tooLarge(bytesMax: number): DoorError {
  return new DoorError(413, `the value is larger than ${bytesMax} bytes`);
}

/** Undefined where the body comes in pieces. Throws DoorError 400, 411. */
function lengthOf({ headers }: IncomingMessage): number | undefined {
  if (headers['content-range'] !== undefined) throw new DoorError(400, 'parts of a value cannot be put');
  const length = headers['content-length'];
  if (length !== undefined) return Number(length);
  if (headers['transfer-encoding'] !== undefined) return undefined;
  throw new DoorError(411, 'say the length of the value (Content-Length)');
}
