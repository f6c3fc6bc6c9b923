/** Trees on disk: scanned and pushed, pulled and written. Names are raw bytes, links are never followed. */

export { GivenPathError, resolveGivenPath } from './given-path.ts';
export { openTemporaryState, openTreeState } from './open-tree-state.ts';
export { openSpaceSource, type PullToPathOptions, pullToPath } from './pull-tree.ts';
export {
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
  TreeBusyError,
} from './push-folder.ts';
export { createCollectingDigest, ResidentMemory } from './resident-memory.ts';
export { ScanError } from './scan-problem.ts';
export { TreeStateBusyError, TreeStateLostError } from './state-failure.ts';
export { defaultCacheFolder } from './state-location.ts';
export { TreeState } from './tree-state.ts';
