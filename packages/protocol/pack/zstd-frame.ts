/** Walks the frame of a compressed record (RFC 8878) without unpacking it, so that decoders meet only frames that a pack may hold. */

import { ZSTD_WINDOW_BYTES_MAX } from '../limits.ts';
import { countOf } from '../size.ts';

/** An `Unzstd` throws this about a frame that does not unpack. Any other error says nothing of the frame. */
export class ZstdFrameError extends Error {
  override readonly name = 'ZstdFrameError';
}

/** Unpacks one frame that `walkZstdFrame` found in order, to at most `canonicalLength` bytes. Throws ZstdFrameError. */
export type Unzstd = (bytes: Uint8Array, canonicalLength: number, frame: ZstdFrame) => Uint8Array;

/** Exactly one of the two is there. */
export type ZstdWalk =
  | { readonly fault: string; readonly frame?: undefined }
  | { readonly fault?: undefined; readonly frame: ZstdFrame };

export interface ZstdFrame {
  /** window size of the decoder, bytes */
  readonly windowBytes: number;
  /** offset of the blocks */
  readonly headerLength: number;
  /** The header states the length of the content: a decoder that goes by it makes no more. */
  readonly statesSize: boolean;
  /** The last four bytes are the low half of the XXH64 of the content. */
  readonly hasChecksum: boolean;
}

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd] as const;
const DICTIONARY_ID_BYTES = [0, 1, 2, 4] as const;
const BLOCK_HEADER_BYTES = 3;
const BLOCK = { rle: 1, compressed: 2 } as const;

/** Whether `frame` is exactly one frame that a record of `canonicalLength` bytes may hold. Does not judge the content of blocks. */
export function walkZstdFrame(frame: Uint8Array, canonicalLength: number): ZstdWalk {
  const header = readFrameHeader(frame, canonicalLength);
  if (typeof header === 'string') return { fault: header };
  const fault = walkBlocks(frame, header, canonicalLength);
  return fault === undefined ? { frame: header } : { fault };
}

function readFrameHeader(frame: Uint8Array, canonicalLength: number): ZstdFrame | string {
  if (MAGIC.some((byte, index) => frame[index] !== byte)) return 'the frame does not begin with 28 b5 2f fd';
  const descriptor = frame[MAGIC.length];
  if (descriptor === undefined) return 'the frame is cut off inside its header';
  if ((descriptor & 0x08) !== 0) return 'a reserved bit of the frame header is set';
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryIdBytes = DICTIONARY_ID_BYTES[descriptor & 0x03] as number;
  const sizeBytes = contentSizeBytes(descriptor >>> 6, isSingleSegment);
  const dictionaryAt = MAGIC.length + (isSingleSegment ? 1 : 2);
  const sizeAt = dictionaryAt + dictionaryIdBytes;
  const headerLength = sizeAt + sizeBytes;
  if (frame.length < headerLength) return 'the frame is cut off inside its header';
  if (readNumber(frame, dictionaryAt, dictionaryIdBytes) !== 0) return 'the frame needs a dictionary';
  const contentSize = readNumber(frame, sizeAt, sizeBytes) + (sizeBytes === 2 ? 256 : 0);
  if (sizeBytes > 0 && contentSize !== canonicalLength) {
    return `the frame states ${contentSize} bytes of content, the record ${canonicalLength}`;
  }
  const windowBytes = isSingleSegment ? contentSize : readWindow(frame[MAGIC.length + 1] as number);
  if (windowBytes > ZSTD_WINDOW_BYTES_MAX) {
    return `the frame needs a window of ${windowBytes} bytes; at most ${ZSTD_WINDOW_BYTES_MAX} are allowed`;
  }
  const hasChecksum = (descriptor & 0x04) !== 0;
  return { windowBytes, headerLength, statesSize: sizeBytes > 0, hasChecksum };
}

function contentSizeBytes(flag: number, isSingleSegment: boolean): number {
  if (flag === 0) return isSingleSegment ? 1 : 0;
  return 2 ** flag;
}

/** Eight mantissas to each power of two, from 1 KiB on. */
function readWindow(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >>> 3));
  return base + (base / 8) * (descriptor & 0x07);
}

function walkBlocks(
  frame: Uint8Array,
  { headerLength, windowBytes, hasChecksum }: ZstdFrame,
  canonicalLength: number,
): string | undefined {
  const blockBytesMax = Math.min(windowBytes, 128 * 1024); // Block_Maximum_Size of RFC 8878
  let plainBytes = 0;
  let at = headerLength;
  for (let isLast = false; !isLast; ) {
    if (at + BLOCK_HEADER_BYTES > frame.length) return 'the frame is cut off before its last block';
    const block = readNumber(frame, at, BLOCK_HEADER_BYTES);
    isLast = (block & 1) === 1;
    const type = (block >>> 1) & 0x03;
    const size = block >>> 3;
    if (type > BLOCK.compressed) return 'the frame has a block of the reserved type';
    if (size > blockBytesMax)
      return `the frame has a block of ${size} bytes; its window allows ${blockBytesMax}`;
    // The size of a decompressed block is known only after decompression.
    if (type !== BLOCK.compressed) plainBytes += size;
    if (plainBytes > canonicalLength) return `the frame unpacks to more than ${canonicalLength} bytes`;
    at += BLOCK_HEADER_BYTES + (type === BLOCK.rle ? 1 : size);
  }
  const end = at + (hasChecksum ? 4 : 0);
  if (end > frame.length) return 'the frame is cut off inside its last block or its checksum';
  if (end < frame.length)
    return `${countOf(frame.length - end, 'byte stands', 'bytes stand')} behind the frame`;
  return undefined;
}

/** Little-endian; exact below 2^53, above that some number above it. */
function readNumber(bytes: Uint8Array, offset: number, length: number): number {
  let value = 0;
  for (let index = length - 1; index >= 0; index--) value = value * 256 + (bytes[offset + index] as number);
  return value;
}

/** Makes an `Unzstd` from the runtime's decoder. It tells a bad frame from a decoder that fails for other reasons. */
interface NativeZstd {
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
