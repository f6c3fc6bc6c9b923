/** Keeps the process of a long job small: garbage is collected before there is much of it. */

/** Resident bytes from which on the collector is called. A job needs about 100 MiB, and is to stay below 200. */
const COLLECT_FROM_BYTES = 152 * 1024 * 1024;

/** Bytes from the network pile up while the cores are busy: a pull of 10,000 files took 214 MiB; with this, below 200. */
export class ResidentMemory {
  #passedBytes = 0;
  #collectFromBytes = COLLECT_FROM_BYTES;

  /** To be called for every node, with its bytes. */
  passed(bytes: number): void {
    // A node leaves garbage besides its bytes: request, answer, promises.
    this.#passedBytes += bytes + 8 * 1024;
    if (this.#passedBytes < 16 * 1024 * 1024) return;
    this.#passedBytes = 0;
    if (process.memoryUsage.rss() < this.#collectFromBytes) return;
    collectGarbage();
    // The rest was in use.
    this.#collectFromBytes = Math.max(COLLECT_FROM_BYTES, process.memoryUsage.rss() + 16 * 1024 * 1024);
  }
}

/** The functions of runtimes for that; a program can only ask the one it runs on. */
interface Collectors {
  readonly Bun?: { gc(force: boolean): void };
  /** of Node, when it was started with --expose-gc */
  readonly gc?: () => void;
}

/** Gives the memory of `bytes` back at once, if nothing else lies in it. Nobody may look at them afterwards. */
export function releaseMemory(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) give(buffer);
}

/** Node has this since 21. Without it the collector takes the memory later. */
function give(memory: ArrayBuffer & { transfer?(length: number): ArrayBuffer }): void {
  memory.transfer?.(0);
}

/** Collects garbage now. Does nothing if the runtime offers no way to ask for it. */
export function collectGarbage(): void {
  const { Bun: bun, gc } = globalThis as Collectors;
  if (bun === undefined) gc?.();
  else bun.gc(true);
}
