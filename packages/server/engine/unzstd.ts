/** Unpacks the frame of a record with the runtime's own decoder, bounded before it begins. */
import { zstdDecompressSync } from 'node:zlib';
import { type Unzstd, ZstdFrameError } from '@holdfast/protocol';

/**
 * The walk over the frame has shown that it is one, and that the size it states, if it states one, is `canonicalLength`. The quick
 * decoder takes room for exactly that. A frame that states nothing goes to the one that can be told where to stop.
 */
export const unzstd: Unzstd = (bytes, canonicalLength, { statesSize }) => {
  try {
    if (statesSize) return Bun.zstdDecompressSync(bytes as Uint8Array<ArrayBuffer>);
    return zstdDecompressSync(bytes, { maxOutputLength: canonicalLength });
  } catch (error) {
    throw new ZstdFrameError(`the frame does not unpack to ${canonicalLength} bytes: ${messageOf(error)}`);
  }
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
