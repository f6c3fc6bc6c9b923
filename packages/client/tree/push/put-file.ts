/** One file of a page, or any Blob, into a Space. Its bytes are read twice and never held: once to hash them, once to send what is missing. */
import { encodeNode, type Hash } from '@holdfast/protocol';
import {
  type CheckedCall,
  checkFunction,
  checkLeaseDuration,
  checkMethod,
  checkOptions,
  describeValue,
  invalidArgument,
  isBlob,
} from '../../arguments.ts';
import { systemClock } from '../../deadline.ts';
import type { CallOptions } from '../../operations.ts';
import { buildFile } from '../build/builders.ts';
import { CHUNK_CONTENT_TYPE, FILE_CONTENT_TYPE, type TreeNode } from '../format/tree-format.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import { MemoryTree } from './memory-tree.ts';
import { type NodeSupply, type PushNode, SourceChangedError } from './node-supply.ts';
import { type PushClient, pushTree } from './push-tree.ts';

const PUT_FILE: CheckedCall = { name: 'putFile', requestOperation: 'uploadNode' };

export interface PutFileProgress {
  /** `hashing`: the file is read and cut. `sending`: the server gets what it lacks. */
  readonly phase: 'hashing' | 'sending';
  /** of the file, hashed or safe on the server; it begins anew with `sending` */
  readonly bytes: number;
  /** the size of the file */
  readonly totalBytes: number;
  /** canonical bytes of nodes that travelled so far */
  readonly sentBytes: number;
}

export interface PutFileOptions extends CallOptions {
  /** Lease of the root: 60 s to 24 h, clamped by the service; 24 h when left out. */
  readonly leaseDurationMs?: number | undefined;
  /** Told now and then, and once at the end of each phase. */
  readonly onProgress?: ((progress: PutFileProgress) => void) | undefined;
}

export interface PutFileResult {
  /** the root of the file, as a push of it has it: give it a root ref, or an entry of a directory */
  readonly hash: Hash;
  readonly bytes: number;
  /** The whole file is safe from collection until then. */
  readonly leaseExpiresAt: number;
  readonly uploadedNodes: number;
  /** canonical bytes */
  readonly uploadedBytes: number;
}

/**
 * Stores a file as a push would, in the memory of some chunks. Called again it sends what is missing. Rejects with CasError,
 * SourceChangedError if the file changed or went away, or the signal's reason.
 */
export async function putFile(
  client: PushClient,
  file: Blob,
  options: PutFileOptions = {},
): Promise<PutFileResult> {
  checkMethod(PUT_FILE, 'client', client, 'leaseNode');
  if (!isBlob(file))
    throw invalidArgument(PUT_FILE, `file must be a File or a Blob; it is ${describeValue(file)}`);
  checkOptions(PUT_FILE, options);
  const { signal, leaseDurationMs, onProgress } = options;
  if (leaseDurationMs !== undefined) checkLeaseDuration(PUT_FILE, leaseDurationMs);
  if (onProgress !== undefined) checkFunction(PUT_FILE, 'onProgress', onProgress);
  const telling = new Telling(file.size, onProgress);
  const supply = await hashFile(file, (more) => telling.add({ bytes: more }), signal);
  telling.startSending();
  const { root, leaseExpiresAt, uploadedNodes, uploadedBytes } = await pushTree(client, supply, {
    signal,
    leaseDurationMs,
    progress: telling.reporter(),
  });
  telling.end();
  return { hash: root, bytes: supply.root.bytes, leaseExpiresAt, uploadedNodes, uploadedBytes };
}

interface Place {
  readonly contentType: string;
  readonly start: number;
  readonly end: number;
}

/** Only nodes without bytes of the file are kept in memory. */
async function hashFile(
  file: Blob,
  onBytes: (more: number) => void,
  signal: AbortSignal | undefined,
): Promise<NodeSupply<PushNode>> {
  const memory = new MemoryTree();
  const places = new Map<Hash, Place>();
  const name = 'name' in file && typeof file.name === 'string' ? file.name : 'the file';
  let offset = 0;
  const emit = (node: TreeNode): void => {
    const { hash, contentType, content } = node;
    if (contentType !== FILE_CONTENT_TYPE && contentType !== CHUNK_CONTENT_TYPE) {
      memory.emit(node);
      return;
    }
    places.set(hash, { contentType, start: offset, end: offset + content.length });
    offset += content.length;
  };
  const { hash: rootHash, bytes } = await buildFile({ emit }, readPieces(file, name, onBytes, signal));
  const place = places.get(rootHash);
  const inMemory = place === undefined ? memory.supply(rootHash) : undefined;
  return {
    root: { hash: rootHash, bytes, entryCount: 1, isLeaf: place !== undefined },
    makeNode: async (node) => {
      const at = places.get(node.hash);
      if (at !== undefined) return readNode(file, name, at);
      if (inMemory === undefined) throw new TypeError('a file of one node has no others');
      return inMemory.makeNode(node);
    },
    listChildren: async (node) => (places.has(node.hash) ? [] : ((await inMemory?.listChildren(node)) ?? [])),
    sizeOf: (node) => {
      const at = places.get(node.hash);
      // A node of the tree format has less than 128 bytes before its content.
      return at === undefined ? (inMemory?.sizeOf(node) ?? 0) : 128 + at.end - at.start;
    },
    nameOf: () => name,
  };
}

async function readNode(file: Blob, name: string, { contentType, start, end }: Place): Promise<Uint8Array> {
  const bytes = await file
    .slice(start, end)
    .arrayBuffer()
    .catch((cause: unknown) => {
      throw new SourceChangedError(name, { cause });
    });
  const content = new Uint8Array(bytes);
  if (content.length !== end - start) throw new SourceChangedError(name);
  return encodeNode({ contentType, refs: [], content });
}

/** A reader of its own: not every browser can iterate a stream. */
async function* readPieces(
  file: Blob,
  name: string,
  onBytes: (more: number) => void,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = file.stream().getReader();
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new SourceChangedError(name, { cause });
      });
      if (done) return;
      onBytes(value.length);
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Counts, and tells now and then. */
class Telling {
  readonly #onProgress: ((progress: PutFileProgress) => void) | undefined;
  #told: PutFileProgress;
  #toldAt = 0;

  constructor(totalBytes: number, onProgress: ((progress: PutFileProgress) => void) | undefined) {
    this.#onProgress = onProgress;
    this.#told = { phase: 'hashing', bytes: 0, totalBytes, sentBytes: 0 };
  }

  add({ bytes = 0, sentBytes = 0 }: { readonly bytes?: number; readonly sentBytes?: number }): void {
    this.#told = {
      ...this.#told,
      bytes: this.#told.bytes + bytes,
      sentBytes: this.#told.sentBytes + sentBytes,
    };
    const now = systemClock.now();
    if (Math.abs(now - this.#toldAt) < 100) return;
    this.#toldAt = now;
    this.#onProgress?.(this.#told);
  }

  startSending(): void {
    this.#onProgress?.(this.#told);
    this.#told = { ...this.#told, phase: 'sending', bytes: 0 };
  }

  end(): void {
    this.#onProgress?.({ ...this.#told, bytes: this.#told.totalBytes });
  }

  reporter(): ProgressReporter {
    return {
      ...SILENT_PROGRESS,
      count: ({ bytes, transferredBytes }) =>
        this.add({ bytes: bytes ?? 0, sentBytes: transferredBytes ?? 0 }),
    };
  }
}
