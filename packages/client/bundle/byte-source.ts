/** Exact reads over a stream of chunks of any size. It holds one chunk and the bytes of the present read. */

export class ByteSource {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #chunk: Uint8Array = new Uint8Array(0);
  #offset = 0;
  #position = 0;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position;
  }

  /** The next byte; undefined at the end. */
  async findByte(): Promise<number | undefined> {
    if (!(await this.#fill())) return undefined;
    this.#position += 1;
    const byte = this.#chunk[this.#offset];
    this.#offset += 1;
    return byte;
  }

  /** The next `length` bytes in memory of their own; undefined when the stream ends before. The caller bounds `length`. */
  async findBytes(length: number): Promise<Uint8Array | undefined> {
    const bytes = new Uint8Array(length);
    let taken = 0;
    while (taken < length) {
      if (!(await this.#fill())) return undefined;
      const end = Math.min(this.#chunk.length, this.#offset + length - taken);
      bytes.set(this.#chunk.subarray(this.#offset, end), taken);
      taken += end - this.#offset;
      this.#position += end - this.#offset;
      this.#offset = end;
    }
    return bytes;
  }

  /** Gives up the rest. */
  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }

  /** Makes sure that a byte is at hand; false at the end. */
  async #fill(): Promise<boolean> {
    while (this.#offset >= this.#chunk.length) {
      const { done, value } = await this.#reader.read();
      if (done) return false;
      this.#chunk = value;
      this.#offset = 0;
    }
    return true;
  }
}
