/**
 * Receives uploads: validates the bytes while they stream, and stages them in a file, or in memory if they are few.
 *
 * Durable order of `seal`: bytes → fsync file → link under the write-once key → fsync folder. The staged name stays until
 * `release` finds the finishing record, as the intent that lets an interrupted upload be undone (staged-files.ts).
 */
import type { Hash } from '@holdfast/protocol';
import { readPieces } from '../../core/byte-stream.ts';
import { TOO_MANY_PUTS, tooLarge, UploadJudge } from '../../core/lease/upload-judge.ts';
import type { Admit, Generation, Space, UploadEvidence } from '../../core/model.ts';
import type { StagedPack } from '../../core/pack-ports.ts';
import type { NodeLimits, StagedUpload, UploadBody, UploadReceiver } from '../../core/upload-ports.ts';
import { askCollector, releasePiece } from '../../runtime/release-bytes.ts';
import { exhausted } from '../../shares/share-tree.ts';
import { guard, storageError } from '../local-failure.ts';
import type { BlockPool } from './block-integrity.ts';
import { BLOCK_BYTES, IntegrityBuilder } from './block-integrity.ts';
import { PackSink, stagedPack } from './pack-receiver.ts';
import type { ReceivingEntry, ReceivingRegistry } from './receiving-registry.ts';
import type { StagedFile, StagedFiles } from './staged-files.ts';

interface Target {
  readonly space: Space;
  readonly generation: Generation;
  readonly hash: Hash;
}

interface ReceiverOptions {
  readonly staged: StagedFiles;
  readonly pool: BlockPool;
  readonly registry: ReceivingRegistry;
  readonly inlineBytesMax: number;
}

export class DiskUploadReceiver implements UploadReceiver {
  readonly #options: ReceiverOptions;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  async receive(
    target: Target,
    body: UploadBody,
    declaredLength: number | undefined,
    limits: NodeLimits,
    admit?: Admit,
  ): Promise<StagedUpload> {
    const receiving = await this.#begin(target, declaredLength, limits.nodeBytesMax);
    const endReceiving = () => receiving.end();
    const sink = new UploadSink(target, this.#options);
    try {
      await admit?.(receiving);
      const bytes = { declaredLength, max: limits.nodeBytesMax };
      const evidence =
        typeof body === 'function'
          ? await receiveWhole(sink, await collected(body()), bytes)
          : await receiveInto(sink, chunksOf(body), bytes);
      return new StagedObject(evidence, sink, endReceiving);
    } catch (error) {
      // This comes first: even if the disk fails, nothing is being received any more.
      endReceiving();
      await sink.drop();
      throw storageError(error, 'receiving an upload');
    }
  }

  async receivePack(
    target: Pick<Target, 'space' | 'generation'>,
    body: UploadBody,
    declaredLength: number | undefined,
    bytesMax: number,
    admit?: Admit,
  ): Promise<StagedPack> {
    const { staged, pool } = this.#options;
    const receiving = await this.#begin(target, declaredLength, bytesMax);
    const endReceiving = () => receiving.end();
    const sink = new PackSink({ generation: target.generation, staged, pool });
    // Packs come from sockets alone. A node may come from a row that is copied, whose bytes live on.
    const leave = body instanceof ReadableStream ? releasePiece : undefined;
    try {
      await admit?.(receiving);
      const bytes = typeof body === 'function' ? await body() : body;
      for await (const chunk of chunksOf(bytes, leave)) {
        if (sink.bytes + chunk.length > bytesMax) {
          await sink.drop();
          return stagedPack(sink, undefined, endReceiving);
        }
        await sink.write(chunk);
      }
      checkWhole(sink.bytes, declaredLength);
      await sink.finish();
      return stagedPack(sink, sink.bytes, endReceiving);
    } catch (error) {
      // This comes first: even if the disk fails, nothing is being received any more.
      endReceiving();
      await sink.drop();
      throw storageError(error, 'receiving a pack');
    }
  }

  async #begin(
    { space, generation }: Pick<Target, 'space' | 'generation'>,
    declaredLength: number | undefined,
    bytesMax: number,
  ): Promise<ReceivingEntry> {
    const bytes = { declared: declaredLength ?? 0, held: declaredLength ?? bytesMax };
    const begin = () => this.#options.registry.begin(space, generation, bytes);
    return begin() ?? (await waitToBegin(begin));
  }

  isReceiving(generation: Generation): boolean {
    return this.#options.registry.isReceiving(generation);
  }

  reservedBytes(space: Space): number {
    return this.#options.registry.reservedBytes(space);
  }

  heldBytes(space: Space): number {
    return this.#options.registry.heldBytes(space);
  }

  heldBytesOfApp(appId: string, by: 'all' | 'other processes'): number {
    return this.#options.registry.heldBytesOfApp(appId, by);
  }
}

/** Waits while other processes use all places of the generation. Rejects with RESOURCE_EXHAUSTED if they keep them. */
async function waitToBegin(begin: () => ReceivingEntry | undefined): Promise<ReceivingEntry> {
  const endsAt = performance.now() + 500;
  while (performance.now() < endsAt) {
    await Bun.sleep(25);
    const receiving = begin();
    if (receiving !== undefined) return receiving;
  }
  throw exhausted(TOO_MANY_PUTS);
}

interface BodyBytes {
  readonly declaredLength: number | undefined;
  readonly max: number;
}

async function receiveInto(
  sink: UploadSink,
  chunks: AsyncIterable<Uint8Array>,
  { declaredLength, max }: BodyBytes,
): Promise<UploadEvidence> {
  for await (const chunk of chunks) {
    if (sink.bytes + chunk.length > max) {
      await sink.drop();
      return tooLarge(max);
    }
    await sink.write(chunk);
  }
  checkWhole(sink.bytes, declaredLength);
  return await sink.finish();
}

async function receiveWhole(
  sink: UploadSink,
  bytes: Uint8Array,
  { declaredLength, max }: BodyBytes,
): Promise<UploadEvidence> {
  if (bytes.length > max) return tooLarge(max);
  checkWhole(bytes.length, declaredLength);
  if (bytes.length <= BLOCK_BYTES) sink.take(bytes);
  else await sink.write(bytes);
  return await sink.finish();
}

function checkWhole(bytes: number, declaredLength: number | undefined): void {
  if (declaredLength === undefined || bytes >= declaredLength) return;
  throw new Error(`the upload broke off after ${bytes} of ${declaredLength} bytes`);
}

/** Cuts the arriving bytes into blocks, checks and writes each of them. It holds one block in memory. */
class UploadSink {
  readonly #target: Target;
  readonly #options: ReceiverOptions;
  readonly #judge: UploadJudge;
  readonly #integrity = new IntegrityBuilder();
  #block: Uint8Array | undefined;
  #blockLength = 0;
  /** the only block, if the caller gave it in memory of its own */
  #whole: Uint8Array | undefined;
  #position = 0;
  #file: StagedFile | undefined;
  inlineBytes: Uint8Array | undefined;

  constructor(target: Target, options: ReceiverOptions) {
    this.#target = target;
    this.#options = options;
    this.#judge = new UploadJudge(target.hash);
  }

  get bytes(): number {
    return this.#judge.bytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let start = 0; start < chunk.length; ) {
      this.#block ??= this.#options.pool.take();
      const part = chunk.subarray(start, start + BLOCK_BYTES - this.#blockLength);
      this.#judge.push(part);
      this.#block.set(part, this.#blockLength);
      this.#blockLength += part.length;
      start += part.length;
      if (this.#blockLength === BLOCK_BYTES) await this.#flush();
    }
  }

  /** Takes all bytes at once, one block at most. The caller does not write to `bytes` afterwards. */
  take(bytes: Uint8Array): void {
    this.#judge.push(bytes);
    this.#whole = bytes;
  }

  async finish(): Promise<UploadEvidence> {
    const isInline = this.bytes <= this.#options.inlineBytesMax;
    if (isInline) {
      const bytes = this.#whole ?? this.#block?.slice(0, this.#blockLength) ?? new Uint8Array(0);
      if (bytes.length > 0) this.#integrity.push(bytes);
      this.inlineBytes = bytes;
      this.#giveBack();
    } else if (this.#whole !== undefined) {
      await this.#store(this.#whole);
      this.#giveBack();
    } else if (this.#blockLength > 0) {
      await this.#flush();
      this.#giveBack();
    }
    const evidence = this.#judge.judge(() => this.#integrity.finish(), isInline);
    if (evidence.verdict === 'bad') await this.drop();
    return evidence;
  }

  async seal(): Promise<boolean> {
    if (this.#file === undefined) throw new Error('only a staged object can be sealed');
    // A key that is taken holds exactly these bytes, because only bytes with the generation's hash are ever sealed. So it counts as
    // sealed, whichever upload did it. The record decides which upload finishes the generation.
    await this.#file.seal();
    return true;
  }

  async release(): Promise<void> {
    await this.#file?.release();
  }

  async drop(): Promise<void> {
    this.#giveBack();
    this.inlineBytes = undefined;
    const file = this.#file;
    this.#file = undefined;
    await file?.release();
  }

  async #flush(): Promise<void> {
    const block = this.#block;
    if (block === undefined) return;
    await this.#store(block.subarray(0, this.#blockLength));
    this.#blockLength = 0;
  }

  async #store(bytes: Uint8Array): Promise<void> {
    this.#integrity.push(bytes);
    this.#file ??= await this.#options.staged.create(this.#target.generation);
    await this.#file.write(bytes, this.#position);
    this.#position += bytes.length;
  }

  #giveBack(): void {
    if (this.#block !== undefined) this.#options.pool.give(this.#block);
    this.#block = undefined;
    this.#whole = undefined;
    this.#blockLength = 0;
  }
}

class StagedObject implements StagedUpload {
  readonly evidence: UploadEvidence;
  readonly #sink: UploadSink;
  readonly #endReceiving: () => void;

  constructor(evidence: UploadEvidence, sink: UploadSink, endReceiving: () => void) {
    this.evidence = evidence;
    this.#sink = sink;
    this.#endReceiving = endReceiving;
  }

  get inlineBytes(): Uint8Array | undefined {
    return this.#sink.inlineBytes;
  }

  seal(): Promise<boolean> {
    return guard('sealing an upload', () => this.#sink.seal());
  }

  async release(): Promise<void> {
    try {
      await this.#sink.release();
    } finally {
      this.#endReceiving();
    }
  }
}

async function* chunksOf(
  body: ReadableStream<Uint8Array> | Uint8Array,
  leave: (chunk: Uint8Array) => void = (chunk) => askCollector(chunk.length),
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body instanceof Uint8Array ? [body] : readPieces(body)) {
    yield chunk;
    leave(chunk);
  }
}

async function collected(body: Promise<Uint8Array>): Promise<Uint8Array> {
  const bytes = await body;
  askCollector(bytes.length);
  return bytes;
}
