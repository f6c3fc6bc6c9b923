/** The entries of one directory as far as somebody has looked: pages are read when the list comes near their end. */
import type { DirectoryEntry, TreeItem, TreeReader } from '@holdfast/client/internal';

export interface DirectoryReader {
  /** by name, as far as read */
  readonly entries: readonly DirectoryEntry[];
  readonly isComplete: boolean;
  /** Reads on until `count` entries are there, or all. `onMore` is called after each bunch. */
  readTo(count: number, onMore: () => void): Promise<void>;
  stop(): void;
}

export function readDirectoryLazily(tree: TreeReader, directory: TreeItem): DirectoryReader {
  const ending = new AbortController();
  const entries: DirectoryEntry[] = [];
  const coming = tree.readDirectory(directory, { signal: ending.signal });
  let isComplete = false;
  let wanted = 0;
  let reading: Promise<void> | undefined;

  async function read(onMore: () => void): Promise<void> {
    while (!isComplete && entries.length < wanted) {
      const { done, value } = await coming.next();
      if (done === true) isComplete = true;
      else entries.push(value);
      if (isComplete || entries.length % 256 === 0) onMore();
    }
    onMore();
  }

  return {
    entries,
    get isComplete() {
      return isComplete;
    },
    async readTo(count, onMore) {
      wanted = Math.max(wanted, count);
      reading ??= read(onMore).finally(() => {
        reading = undefined;
      });
      await reading;
    },
    stop: () => ending.abort(),
  };
}
