/** Folders of a pull's target, and the paths of their entries. */
import { DESCRIPTORS } from '../folder-calls.ts';

/** A folder of the target, for as long as its descriptor is open. */
export interface TargetFolder {
  /** The prefix that makes a name the path of an entry of the folder. */
  readonly prefix: Buffer;
  /** undefined where folders are not held open */
  readonly descriptor: number | undefined;
}

/** The folder that `descriptor` holds open. Its prefix is made when it is asked for, because most steps need none. */
export function folderOf(descriptor: number): TargetFolder {
  return {
    descriptor,
    get prefix() {
      return Buffer.from(`${DESCRIPTORS}/${descriptor}/`);
    },
  };
}

export function pathOf({ prefix }: TargetFolder, name: Uint8Array): Buffer {
  return Buffer.concat([prefix, name]);
}
