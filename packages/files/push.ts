/** The door to pushes, for the commands that make them: trees on disk scanned, and what is kept between pushes. */

export type { FolderState } from './push/folder-state.ts';
export { IGNORE_FILE_NAME } from './push/ignore-rules.ts';
export { MemoryState } from './push/memory-state.ts';
export {
  type PlannedFolder,
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
} from './push/push-folder.ts';
export { type LeftOut, OwnFolderError, ScanError, TreeBusyError } from './push/scan-problem.ts';
export type { SnapshotTarget } from './push/snapshot-commit.ts';
export { TreeStateBusyError, TreeStateLostError } from './push/state-failure.ts';
export { defaultCacheFolder } from './state/cache-folder.ts';
export { openTemporaryState, openTreeState } from './state/open-tree-state.ts';
export { TreeState } from './state/tree-state.ts';
