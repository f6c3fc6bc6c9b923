/** Makes an `Unzstd` from the runtime's decoder. It tells a bad frame from a decoder that fails for other reasons. */
import { type Unzstd, ZstdFrameError } from './zstd-frame.ts';

export interface NativeZstd {
  /** Fast, but bounded only by the size that the frame states. Not used for a frame that states none. */
  readonly decompressStated?: (frame: Uint8Array) => Uint8Array;
  /** Gives at most `bytesMax` bytes. It throws errors with the codes of `node:zlib`. */
  readonly decompressBounded: (frame: Uint8Array, bytesMax: number) => Uint8Array;
}

/** Zstandard of the runtime, for what goes into packs and comes out of them. */
export function createUnzstd({ decompressStated, decompressBounded }: NativeZstd): Unzstd {
  return (bytes, canonicalLength, frame) => {
    if (frame.statesSize && decompressStated !== undefined) {
      try {
        return decompressStated(bytes);
      } catch {
        // The other decoder tells why, by a code.
      }
    }
    try {
      return decompressBounded(bytes, canonicalLength);
    } catch (error) {
      const fault = findFrameFault(error, canonicalLength);
      throw fault === undefined ? error : new ZstdFrameError(fault);
    }
  };
}

/** The fault of the frame that a decoder of `node:zlib` found; undefined when it failed for reasons of its own. */
export function findFrameFault(error: unknown, canonicalLength: number): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ERR_BUFFER_TOO_LARGE' || code === 'ZSTD_error_dstSize_tooSmall') {
    return `the frame unpacks to more than ${canonicalLength} bytes`;
  }
  if (!code.startsWith('ZSTD_error_') || code === 'ZSTD_error_memory_allocation') return undefined;
  return `the frame does not unpack: ${(error as Error).message}`;
}
