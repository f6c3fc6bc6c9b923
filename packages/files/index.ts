/** Trees on disk: scanned and pushed, pulled and written. Names are raw bytes, links are never followed. */

export type { FolderState } from './folder-state.ts';
export { GivenPathError, resolveGivenPath } from './given-path.ts';
export { IGNORE_FILE_NAME } from './ignore-rules.ts';
export { MemoryState } from './memory-state.ts';
export { openSpaceSource, type PullToPathOptions, pullToPath } from './pull-tree.ts';
export {
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
} from './push-folder.ts';
export { createCollectingDigest, ResidentMemory } from './resident-memory.ts';
export { ScanError } from './scan-problem.ts';
export type { SnapshotTarget } from './snapshot-commit.ts';
export { makeCacheFolder } from './state/cache-folder.ts';
export { openTemporaryState, openTreeState } from './state/open-tree-state.ts';
export { defaultCacheFolder } from './state/state-location.ts';
export { TreeState } from './state/tree-state.ts';
export { TreeStateBusyError, TreeStateLostError } from './state-failure.ts';
export { TreeBusyError } from './tree-busy-error.ts';
