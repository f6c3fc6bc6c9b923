/** Room on the disk that holds the data folder: a part of it is kept free, so that what was received can still be judged. */
import { ApiError } from '@holdfast/protocol';

export interface FreeSpace {
  /** Whether `bytes` more would leave less than is kept free, or no inode is left beyond those that are. */
  isLowFor(bytes: number): boolean;
}

/** `freeSpace` is undefined where nothing is kept on a disk of ours. Throws SERVICE_UNAVAILABLE. */
export function checkRoom(freeSpace: FreeSpace | undefined, bytes: number): void {
  if (freeSpace?.isLowFor(bytes)) throw noRoom();
}

export const noRoom = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    "no space, or no inodes, left on the server's disk but the part it keeps free: reads work and nothing is lost; try again when its operator has made room",
    // An operator has to make room, which takes a while.
    { retryAfterSeconds: 30 },
  );
