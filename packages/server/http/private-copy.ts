/**
 * A private file for content that is no file by itself: from S3, or out of a pack. On Linux it has no name: nothing else can reach
 * it, a crash leaves nothing, and the system keeps it until the runtime has closed it for its last reader.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { ByteFile } from './sent-file.ts';
import { PlaceFailed } from './sent-place.ts';

const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';

/** A file of `size` bytes. Throws PlaceFailed, and so does writing it. */
export function makePrivateCopy(folder: string, size: number): ByteFile {
  const path = join(folder, `holdfast-${crypto.randomUUID()}`);
  let fd: number | undefined;
  try {
    fd = fs.openSync(path, 'wx+', 0o600);
    if (CAN_OPEN_DESCRIPTORS) fs.unlinkSync(path);
    // The parts of the file that are not written yet take no room.
    fs.ftruncateSync(fd, size);
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd);
    fs.rmSync(path, { force: true });
    throw new PlaceFailed(`no copy can be made in ${folder}`, { cause: error });
  }
  const copy = fd;
  return {
    path: CAN_OPEN_DESCRIPTORS ? `/proc/self/fd/${copy}` : path,
    contentAt: 0,
    async write(bytes, position) {
      try {
        await writeAll(copy, bytes, position);
      } catch (error) {
        throw new PlaceFailed(`a copy could not be written in ${folder}`, { cause: error });
      }
    },
    isUnchanged: () => true,
    close() {
      fs.closeSync(copy);
      if (!CAN_OPEN_DESCRIPTORS) fs.rmSync(path, { force: true });
    },
  };
}

async function writeAll(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    written += await writeFd(fd, bytes, written, position + written);
  }
}

function writeFd(fd: number, bytes: Uint8Array, from: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, from, bytes.length - from, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}
