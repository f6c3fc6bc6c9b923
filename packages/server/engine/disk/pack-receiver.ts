/** Receives packs: bytes are staged as they come, and judged only by a lease. */
import type { Generation } from '../../core/model.ts';
import type { StagedPack } from '../../core/pack-ports.ts';
import { guard } from '../local-failure.ts';
import type { BlockPool } from './block-integrity.ts';
import { BLOCK_BYTES } from './block-integrity.ts';
import type { StagedFile, StagedFiles } from './staged-files.ts';

const NOTHING = new Uint8Array(0);

interface PackSinkOptions {
  readonly generation: Generation;
  readonly staged: StagedFiles;
  readonly pool: BlockPool;
}

/** Gathers the arriving bytes into blocks and writes each block. It holds one in memory. A larger piece is written as it came. */
export class PackSink {
  readonly #options: PackSinkOptions;
  #block: Uint8Array | undefined;
  #blockLength = 0;
  #written = 0;
  #file: StagedFile | undefined;

  constructor(options: PackSinkOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#written + this.#blockLength;
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (chunk.length >= BLOCK_BYTES) {
      await this.#flush();
      await this.#append(chunk);
      return;
    }
    for (let start = 0; start < chunk.length; ) {
      this.#block ??= this.#options.pool.take();
      const part = chunk.subarray(start, start + BLOCK_BYTES - this.#blockLength);
      this.#block.set(part, this.#blockLength);
      this.#blockLength += part.length;
      start += part.length;
      if (this.#blockLength === BLOCK_BYTES) await this.#flush();
    }
  }

  /** After the last byte. */
  async finish(): Promise<void> {
    await this.#flush();
    this.#giveBack();
  }

  async seal(): Promise<boolean> {
    const file = this.#file;
    if (file === undefined) throw new Error('only a staged pack can be sealed');
    return guard('sealing a pack', () => file.seal());
  }

  async drop(): Promise<void> {
    this.#giveBack();
    const file = this.#file;
    this.#file = undefined;
    await file?.undo();
  }

  /** Also writes the empty file of a pack without bytes. */
  async #flush(): Promise<void> {
    await this.#append(this.#block?.subarray(0, this.#blockLength) ?? NOTHING);
    this.#blockLength = 0;
  }

  async #append(bytes: Uint8Array): Promise<void> {
    this.#file ??= await this.#options.staged.create(this.#options.generation);
    if (bytes.length === 0) return;
    await this.#file.write(bytes, this.#written);
    this.#written += bytes.length;
  }

  #giveBack(): void {
    if (this.#block !== undefined) this.#options.pool.give(this.#block);
    this.#block = undefined;
    this.#blockLength = 0;
  }
}

/** `bytes` undefined: nothing was staged. */
export function stagedPack(sink: PackSink, bytes: number | undefined, endReceiving: () => void): StagedPack {
  return {
    bytes,
    seal: () => sink.seal(),
    async release() {
      try {
        await sink.drop();
      } finally {
        endReceiving();
      }
    },
  };
}
