/** Small files whose nodes the target verifies, as they came: it may do so beside the pull. */
import { encodeNodeHeader } from '@holdfast/protocol';
import type { CallOptions } from '../../operations.ts';
import { type DirectoryEntry, FILE_CONTENT_TYPE } from '../format/tree-format.ts';
import type { NodeSource } from '../read/node-source.ts';
import type { PullTarget, UnprovenFile } from './target.ts';

export interface FoundFile extends UnprovenFile {
  /** The content of the same node, verified here. */
  readonly source: NodeSource;
  /** Nobody looks at the record any more; `source` is of no use then. */
  release(): void;
}

/** The node of a whole file as it came. Undefined if the bytes cannot be that node: the usual read then finds out why. */
export async function findUnprovenFile(
  source: NodeSource,
  target: PullTarget,
  { hash, bytes, kind }: DirectoryEntry,
  { signal }: CallOptions,
): Promise<FoundFile | undefined> {
  if (kind !== 'file' || bytes > (target.unprovenBytesMax ?? -1)) return undefined;
  const found = await source.readUnproven?.(hash, { signal, contentBytes: bytes });
  if (found === undefined) return undefined;
  const header = encodeNodeHeader({ contentType: FILE_CONTENT_TYPE, refs: [], size: bytes });
  const { record } = found;
  if (record.canonicalLength !== header.length + bytes) return undefined;
  const verified: NodeSource = {
    readNode: (asked, options) =>
      asked === hash
        ? found.prove().catch(() => source.readNode(asked, options))
        : source.readNode(asked, options),
    giveBack: (content) => source.giveBack?.(content),
  };
  return { hash, record, header, source: verified, release: () => found.release() };
}
