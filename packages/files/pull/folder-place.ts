/** A folder of a pull's target, as what is written into it names it. */

/** On Linux a folder that is held open has a path of its own, whatever happens to the one it was opened by. */
export const DESCRIPTORS = '/proc/self/fd';

/** A folder of the target, for as long as its descriptor is open. */
export interface FolderPlace {
  /** What to put before a name to mean an entry of the folder. */
  readonly prefix: Buffer;
  /** undefined where folders are not held open */
  readonly descriptor: number | undefined;
}

/** The folder that `descriptor` holds open. Most of what is done there needs no prefix, so it is made when it is asked for. */
export function placeOf(descriptor: number): FolderPlace {
  return {
    descriptor,
    get prefix() {
      return Buffer.from(`${DESCRIPTORS}/${descriptor}/`);
    },
  };
}

export function pathOf({ prefix }: FolderPlace, name: Uint8Array): Buffer {
  return Buffer.concat([prefix, name]);
}
