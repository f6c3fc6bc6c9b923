/** readContent: the node's own content, whole or one range, every byte proven first (docs/api.md, readContent). */
import { ApiError, type Hash } from '@holdfast/protocol';
import { type Awaitable, after } from '../awaitable.ts';
import { isProofOfRot, markRotten, rottenContent, storedObject } from '../contents.ts';
import type { Core } from '../core.ts';
import type { ContentRow, NodeRow, Space } from '../model.ts';
import { CONTENT_PIECE_BYTES, type ReadAids } from '../ports.ts';
import { ContentDamaged, ContentLost, isDamage, RowDamaged } from '../store-failure.ts';
import { parseByteRange } from './byte-range.ts';
import type { ContentCaller } from './content-caller.ts';
import { isReadable, nodeNotFound } from './read-metadata.ts';

export interface ContentAnswer {
  readonly status: 200 | 206;
  readonly contentType: string;
  /** bytes of the whole content */
  readonly size: number;
  /** first byte of the answer within the content */
  readonly start: number;
  /** exclusive */
  readonly end: number;
  /** exactly that many bytes; none for who wants none */
  readonly body: Uint8Array | Blob;
}

const NO_BYTES = new Uint8Array(0);

/** A row that changes during a look (collected or healed) is looked at again, this many times in all. */
const LOOKS_MAX = 3;

type Body = ContentAnswer['body'];

/** What a request wants, the same for every look at the row. */
interface Wanted {
  readonly core: Core;
  readonly space: Space;
  readonly hash: Hash;
  readonly range: string | undefined;
  readonly caller: ContentCaller;
}

/** Returns content without a promise if it is there already. Failures reject: NOT_FOUND, 416 (Content-Range), SERVICE_UNAVAILABLE. */
export function readContent(
  core: Core,
  space: Space,
  hash: Hash,
  range: string | undefined,
  caller: ContentCaller,
): Awaitable<ContentAnswer> {
  try {
    return look({ core, space, hash, range, caller }, LOOKS_MAX);
  } catch (error) {
    return settleUnread({ core, space, hash, range, caller }, error);
  }
}

/** The store could not read the row. A disk may fail one read alone, so it is asked once more. Damaged bytes make the row rotten. */
async function settleUnread(wanted: Wanted, first: unknown): Promise<ContentAnswer> {
  if (!isDamage(first)) throw first;
  let error: unknown;
  try {
    return await look(wanted, LOOKS_MAX);
  } catch (again) {
    if (!isDamage(again)) throw again;
    error = again;
  }
  const { core, space, hash } = wanted;
  const node = await core.metadata.findNode(space, hash);
  if (node?.state === 'rotten') throw metRotten(wanted);
  // The record of an object on a damaged page cannot be written over.
  const isLeft = node?.storage === 'object' && !(error instanceof RowDamaged);
  if (node?.state !== 'ready' || isLeft) throw error;
  const proof = new ContentDamaged('the record of its bytes in the database is damaged');
  if ((await markRotten(core, space, node, proof)) === 'changed') throw error;
  throw rottenContent();
}

function metRotten({ core, space, hash }: Wanted): ApiError {
  core.rottenNodes.noteMet(space, hash);
  return rottenContent();
}

function look(wanted: Wanted, looksLeft: number): Awaitable<ContentAnswer> {
  if (looksLeft === 0) {
    throw new ApiError('SERVICE_UNAVAILABLE', 'this node is changing right now; read it again', {
      retryAfterSeconds: 1,
    });
  }
  return after(wanted.core.metadata.findNodeWithContent(wanted.space, wanted.hash), (found) => {
    const node = found?.node;
    if (found === undefined || !isReadable(node)) throw nodeNotFound();
    if (node.state === 'rotten') throw metRotten(wanted);
    const { size, contentType } = node;
    const range = parseByteRange(wanted.range, size);
    if (range.kind === 'unsatisfiable') throw rangeNotSatisfiable(size);
    const isPart = range.kind === 'part';
    const start = isPart ? range.start : 0;
    const end = isPart ? range.end : size;
    return after(openProven(wanted, node, found.content, start, end), (body) => {
      if (body === undefined) return look(wanted, looksLeft - 1);
      return { status: isPart ? 206 : 200, contentType, size, start, end, body };
    });
  });
}

/** Damage or loss before the first byte makes the row rotten and answers 503. `undefined`: the row changed meanwhile. */
function openProven(
  wanted: Wanted,
  node: NodeRow,
  content: ContentRow | undefined,
  start: number,
  end: number,
): Awaitable<Body | undefined> {
  try {
    if (content === undefined) throw new ContentLost('the content record is gone');
    const offset = node.canonicalSize - node.size;
    if (content.inlineBytes === undefined) {
      const { core, space, caller } = wanted;
      const object = storedObject(space, content);
      const bytes = caller.wantsBytes
        ? core.content.findNow?.(object, offset + start, offset + end)
        : undefined;
      return bytes ?? openObject(wanted, node, content, start, end);
    }
    wanted.core.content.verifyInline(content);
    return content.inlineBytes.subarray(offset + start, offset + end);
  } catch (error) {
    return settleFailure(wanted, node, content, error);
  }
}

async function openObject(
  wanted: Wanted,
  node: NodeRow,
  content: ContentRow,
  start: number,
  end: number,
): Promise<Body | undefined> {
  const { core, space, caller } = wanted;
  const object = storedObject(space, content);
  const { generation } = object;
  const { size } = node;
  const offset = node.canonicalSize - size;
  const read = async (from: number, to: number, aids?: ReadAids): Promise<Uint8Array> => {
    const bytes = await core.content.read(object, from, to, aids);
    if (bytes.length !== to - from) throw new Error(`${to - from} bytes of content came as ${bytes.length}`);
    return bytes;
  };
  const fillsScratch = core.content.fillsScratch && object.packed === undefined;
  try {
    if (!caller.wantsBytes) {
      await caller.reserve?.(Math.min(end - start, CONTENT_PIECE_BYTES), fillsScratch);
      await core.content.prove(object, offset + start, offset + end);
      return NO_BYTES;
    }
    // Small content is always answered from memory, and waits for room there: that is quicker than a copy.
    if (end - start <= 256 * 1024) {
      const aids = await caller.reserve?.(end - start, fillsScratch);
      return await read(offset + start, offset + end, aids);
    }
    const isLendable = end - start <= CONTENT_PIECE_BYTES;
    const lent = isLendable ? caller.lend?.(end - start, fillsScratch) : undefined;
    if (lent !== undefined) return await read(offset + start, offset + end, await lent);
    const getVersion = (): Promise<string> => core.content.getVersion(object);
    return await caller.copy({ generation, offset, size, getVersion, fillsScratch, read }, start, end);
  } catch (error) {
    return settleFailure(wanted, node, content, error);
  }
}

async function settleFailure(
  { core, space }: Wanted,
  node: NodeRow,
  content: ContentRow | undefined,
  error: unknown,
): Promise<undefined> {
  if (!isProofOfRot(error)) throw error;
  if ((await markRotten(core, space, node, error, content?.packed)) !== 'changed') throw rottenContent();
  return undefined;
}

const rangeNotSatisfiable = (size: number): ApiError =>
  new ApiError('INVALID_REQUEST', `range not satisfiable: the content has ${size} bytes`, {
    status: 416,
    headers: { 'content-range': `bytes */${size}` },
  });
