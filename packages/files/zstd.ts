/** Zstandard of the runtime, for nodes that travel in packs: Bun has it, Node from 22.15 on. */
import type { Compress, Zstd } from '@holdfast/client/push';
import { createUnzstd } from '@holdfast/protocol';
import { releaseMemory } from './resident-memory.ts';

interface BunZstd {
  zstdCompressSync(bytes: Uint8Array, options: { readonly level: number }): Uint8Array;
  zstdCompress(bytes: Uint8Array, options: { readonly level: number }): Promise<Uint8Array>;
  zstdDecompressSync(bytes: Uint8Array): Uint8Array;
}

/** Its functions are missing in older versions of Node. */
interface ZlibOfNode {
  readonly constants: { readonly ZSTD_c_compressionLevel?: number };
  readonly zstdCompressSync?: (
    bytes: Uint8Array,
    options: { readonly params: Record<number, number> },
  ) => Uint8Array;
  readonly zstdDecompressSync?: (
    bytes: Uint8Array,
    options: { readonly maxOutputLength: number },
  ) => Uint8Array;
}

/** The functions of the runtime in use. A program can only ask the one it runs on. */
interface ZstdRuntime {
  readonly bun: BunZstd | undefined;
  /** Loaded only if it is used: that takes 5 ms. Undefined in versions of Node that have no zstd either. */
  readonly zlib: () => ZlibOfNode | undefined;
}

/** Level 3 takes up to two thirds more time, and saves 1 to 4 % of the bytes (docs/dependencies.md). */
const COMPRESSION_LEVEL = 1;

const RUNTIME: ZstdRuntime = {
  bun: (globalThis as { Bun?: BunZstd }).Bun,
  zlib: () => process.getBuiltinModule?.('node:zlib'),
};

/** For `zstd` of `createClient`. Undefined where the runtime has none: nodes then travel as they are. */
export function findZstd(runtime: ZstdRuntime = RUNTIME): Zstd | undefined {
  const { bun, zlib } = runtime;
  const unlessRandom =
    (compress: (bytes: Uint8Array) => Uint8Array): Compress =>
    (bytes) =>
      looksRandom(bytes) ? undefined : compress(bytes);
  const decompressBounded = (frame: Uint8Array, maxOutputLength: number): Uint8Array => {
    const unzstd = zlib()?.zstdDecompressSync;
    if (unzstd === undefined) throw new Error('this runtime has no zstd');
    return unzstd(frame, { maxOutputLength });
  };
  // Older versions of Bun have none.
  if (bun?.zstdCompressSync === undefined) {
    const { constants, zstdCompressSync } = zlib() ?? {};
    const level = constants?.ZSTD_c_compressionLevel;
    if (level === undefined || zstdCompressSync === undefined) return undefined;
    const params = { [level]: COMPRESSION_LEVEL };
    return {
      compress: unlessRandom((bytes) => zstdCompressSync(bytes, { params })),
      unzstd: createUnzstd({ decompressBounded }),
    };
  }
  // Half the time of the same in node:zlib.
  return {
    compress: unlessRandom((bytes) =>
      bun.zstdCompressSync(bytes, {
        // Larger nodes hold most of the bytes that a higher level saves.
        level: bytes.length < 16 * 1024 ? COMPRESSION_LEVEL : 2,
      }),
    ),
    compressAside: (bytes) =>
      // On other threads, for chunks of large files.
      looksRandom(bytes) ? undefined : bun.zstdCompress(bytes, { level: 3 }),
    // The garbage collector hardly counts this memory, and lets it pile up: a push of 180 MB had up to 60 MiB of it.
    release: releaseMemory,
    unzstd: createUnzstd({ decompressStated: (frame) => bun.zstdDecompressSync(frame), decompressBounded }),
  };
}

/** Number of single bytes looked at first. Among random bytes, half have their highest bit set. */
const GLANCES = 32;
/** Among 32 random bytes, fewer, or more than the rest, have it once in 400,000 times. Text hardly ever has it. */
const HIGH_BITS_MIN = 4;
/** The number of samples, and the bytes counted in each. */
const SAMPLES = 4;
const SAMPLE_BYTES = 256;
/**
 * The sum of squares of the counts of each byte, divided by that of even counts: by chance random bytes exceed it by one for each
 * byte value and byte looked at. Bytes of which entropy saves 5 % exceed it by more.
 */
const EVEN_SQUARES_MAX = 1.125;
const BYTE_VALUES = 256;

/** How often each byte value was met; of one look at a time. */
const counts = new Uint16Array(BYTE_VALUES);

/** Whether each byte comes as often as any other, as in what is compressed or encrypted already. */
function looksRandom(bytes: Uint8Array): boolean {
  // Fewer bytes tell nothing and are compressed at once.
  if (bytes.length < 512) return false;
  const highBits = countHighBits(bytes);
  const isMixed = highBits >= HIGH_BITS_MIN && highBits <= GLANCES - HIGH_BITS_MIN;
  return isMixed && areCountsEven(bytes);
}

function countHighBits(bytes: Uint8Array): number {
  const step = Math.floor(bytes.length / GLANCES);
  let highBits = 0;
  for (let at = 0, left = GLANCES; left > 0; left -= 1, at += step) highBits += (bytes[at] as number) >>> 7;
  return highBits;
}

function areCountsEven(bytes: Uint8Array): boolean {
  const sampleBytes = Math.min(SAMPLE_BYTES, Math.floor(bytes.length / SAMPLES));
  const step = Math.floor((bytes.length - sampleBytes) / (SAMPLES - 1));
  counts.fill(0);
  let squares = 0;
  for (let start = 0, left = SAMPLES; left > 0; left -= 1, start += step) {
    for (let at = start; at < start + sampleBytes; at += 1) {
      const count = counts[bytes[at] as number] as number;
      // The difference between the squares of `count` and the next number.
      squares += 2 * count + 1;
      counts[bytes[at] as number] = count + 1;
    }
  }
  const looked = SAMPLES * sampleBytes;
  return squares / looked <= (EVEN_SQUARES_MAX * looked) / BYTE_VALUES + 1;
}
