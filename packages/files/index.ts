/** Trees on disk: scanned and pushed, pulled and written. Names are raw bytes, links are never followed. */

export {
  GivenPathError,
  type GivenPathOptions,
  resolveGivenPath,
  settleGivenPath,
} from './given-path.ts';
export { createCollectingDigest, digestAtOnce } from './node-digest.ts';
export { isProcessRunning } from './process-running.ts';
export { ChunkMemory } from './pull/chunk-memory.ts';
export { openSpaceSource, type PullToPathOptions, pullToPath } from './pull/pull-to-path.ts';
export type { FolderState } from './push/folder-state.ts';
export { IGNORE_FILE_NAME } from './push/ignore-rules.ts';
export { MemoryState } from './push/memory-state.ts';
export { OwnFolderError } from './push/own-folder-error.ts';
export {
  type PlannedFolder,
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
} from './push/push-folder.ts';
export { type LeftOut, ScanError, TreeBusyError } from './push/scan-problem.ts';
export type { SnapshotTarget } from './push/snapshot-commit.ts';
export { TreeStateBusyError, TreeStateLostError } from './push/state-failure.ts';
export { ResidentMemory } from './resident-memory.ts';
export { defaultCacheFolder, makeCacheFolder } from './state/cache-folder.ts';
export { openTemporaryState, openTreeState } from './state/open-tree-state.ts';
export { TreeState } from './state/tree-state.ts';
export { createFileWriter } from './writer/thread-file-writer.ts';
export { findZstd } from './zstd.ts';
