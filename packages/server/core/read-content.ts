/** readContent: the node's own content, whole or one range, every byte proven first (contract sections 2, 5 and 8). */
import { ApiError, type Hash } from '@holdfast/protocol';
import { parseByteRange } from './byte-range.ts';
import { isProofOfRot, markRotten, rottenContent, storedObject } from './contents.ts';
import type { Core } from './core.ts';
import type { ContentRow, NodeRow, Space } from './model.ts';
import { type ContentCaller, ContentLost, type OpenContent } from './ports.ts';
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
  readonly body: OpenContent['body'];
}

/** A look that meets a row in the middle of a collection or a healing looks again, so many times. */
const LOOKS_MAX = 3;
const CHANGING_RETRY_AFTER_SECONDS = 1;

type Body = ContentAnswer['body'];

/** Throws NOT_FOUND, 416 (with Content-Range), SERVICE_UNAVAILABLE for a rotten node. */
export async function readContent(
  core: Core,
  space: Space,
  hash: Hash,
  rangeHeader: string | undefined,
  caller?: ContentCaller,
): Promise<ContentAnswer> {
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const found = await core.metadata.findNodeWithContent(space, hash);
    const node = found?.node;
    if (found === undefined || !isReadable(node)) throw nodeNotFound();
    if (node.state === 'rotten') throw rottenContent();
    const range = parseByteRange(rangeHeader, node.size);
    if (range.kind === 'unsatisfiable') throw rangeNotSatisfiable(node.size);
    const start = range.kind === 'part' ? range.start : 0;
    const end = range.kind === 'part' ? range.end : node.size;
    const body = await openProven(core, space, node, found.content, { start, end, caller });
    if (body === undefined) continue;
    const status = range.kind === 'part' ? 206 : 200;
    return { status, contentType: node.contentType, size: node.size, start, end, body };
  }
  throw new ApiError('SERVICE_UNAVAILABLE', 'this node is changing right now; read it again', {
    retryAfterSeconds: CHANGING_RETRY_AFTER_SECONDS,
  });
}

/**
 * Damage or loss met before the first byte makes the row rotten and answers 503; any other failure changes nothing.
 * `undefined`: the row moved on to other content, or away, while its bytes were opened.
 */
async function openProven(
  core: Core,
  space: Space,
  node: NodeRow,
  content: ContentRow | undefined,
  {
    start,
    end,
    caller,
  }: { readonly start: number; readonly end: number; readonly caller: ContentCaller | undefined },
): Promise<Body | undefined> {
  const headerLength = node.canonicalSize - node.size;
  try {
    if (content === undefined) throw new ContentLost('the content record is gone');
    if (content.inlineBytes !== undefined) {
      core.content.verifyInline(content);
      return content.inlineBytes.subarray(headerLength + start, headerLength + end);
    }
    const object = storedObject(space, content);
    const onBroken = (): void => {
      // The broken connection is the answer; a failed marking leaves the next read to prove it again.
      markRotten(core, space, node).catch(() => {});
    };
    const from = headerLength + start;
    const opened = await core.content.open(object, from, headerLength + end, onBroken, caller);
    return opened.body;
  } catch (error) {
    if (!isProofOfRot(error)) throw error;
    if (await markRotten(core, space, node)) throw rottenContent();
    return undefined;
  }
}

const rangeNotSatisfiable = (size: number): ApiError =>
  new ApiError('INVALID_REQUEST', `range not satisfiable: the content has ${size} bytes`, {
    status: 416,
    headers: { 'content-range': `bytes */${size}` },
  });
