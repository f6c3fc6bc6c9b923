/** Zstandard of the runtime, for nodes that travel in packs: Bun has it, Node from 22.15 on. */
import * as zlib from 'node:zlib';
import type { Zstd } from '@holdfast/client';
import { createUnzstd } from '@holdfast/protocol';

interface BunZstd {
  zstdCompressSync(bytes: Uint8Array, options: { readonly level: number }): Uint8Array;
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

/** What of the runtime is used. A program can only ask for what it runs on. */
interface ZstdRuntime {
  readonly bun: BunZstd | undefined;
  readonly zlib: ZlibOfNode;
}

/** Level 1 takes a seventh less time and makes 4 % more bytes of files of a few KiB (docs/dependencies.md). */
const COMPRESSION_LEVEL = 3;

const RUNTIME: ZstdRuntime = { bun: (globalThis as { Bun?: BunZstd }).Bun, zlib };

/** For `zstd` of `createClient`. Undefined where the runtime has none: nodes then travel as they are. */
export function findZstd(runtime: ZstdRuntime = RUNTIME): Zstd | undefined {
  const { bun, zlib: node } = runtime;
  const { zstdCompressSync, zstdDecompressSync } = node;
  const { ZSTD_c_compressionLevel: levelParameter } = node.constants;
  if (levelParameter === undefined || zstdCompressSync === undefined || zstdDecompressSync === undefined)
    return undefined;
  const params = { [levelParameter]: COMPRESSION_LEVEL };
  const decompressBounded = (frame: Uint8Array, maxOutputLength: number): Uint8Array =>
    zstdDecompressSync(frame, { maxOutputLength });
  if (bun === undefined) {
    return {
      compress: (bytes) => zstdCompressSync(bytes, { params }),
      unzstd: createUnzstd({ decompressBounded }),
    };
  }
  // Half the time of the same in node:zlib.
  return {
    compress: (bytes) => bun.zstdCompressSync(bytes, { level: COMPRESSION_LEVEL }),
    unzstd: createUnzstd({ decompressStated: (frame) => bun.zstdDecompressSync(frame), decompressBounded }),
  };
}
