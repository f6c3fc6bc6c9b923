/** Unpacks the frame of a record with the runtime's own decoders, bounded before they begin. */
import { zstdDecompressSync } from 'node:zlib';
import { createUnzstd } from '@holdfast/protocol';

/** A decoder that fails for want of memory proves nothing against a record: then it is no verdict, and the node does not rot. */
export const unzstd = createUnzstd({
  decompressStated: (frame) => Bun.zstdDecompressSync(frame as Uint8Array<ArrayBuffer>),
  decompressBounded: (frame, maxOutputLength) => zstdDecompressSync(frame, { maxOutputLength }),
});
