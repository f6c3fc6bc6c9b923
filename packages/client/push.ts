/** The part of the internal door that a push needs: a command starts in less time without the other trees, names and bundles. */

export type { Compress } from '@holdfast/protocol';
export type { Bulk, Zstd } from './bulk/bulk.ts';
export { CatalogError } from './catalog/catalog-error.ts';
export type { Snapshot } from './catalog/catalog-format.ts';
export { checkSnapshotId, checkSnapshotName, findSnapshotsOf } from './catalog/find-snapshot.ts';
export { type Client, createClient } from './client.ts';
export type { ClientOptions } from './client-options.ts';
export type { NodeDigest } from './digest.ts';
export { CasError } from './errors.ts';
export { startLeaseKeeper } from './lease-keeper.ts';
export { Semaphore } from './semaphore.ts';
export type { Sha256 } from './sha256.ts';
export type { FetchFunction } from './transport.ts';
export {
  type BuiltDirectory,
  type BuiltFile,
  buildSymlink,
  DirectoryBuilder,
  FileIndexBuilder,
  type NodeSink,
} from './tree/build/builders.ts';
export { findChunkEnd } from './tree/format/chunker.ts';
export {
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  CHUNK_CONTENT_TYPE,
  type DirectoryEntry,
  FILE_CONTENT_TYPE,
  MTIME_NS_MAX,
  MTIME_NS_MIN,
  SYMLINK_CONTENT_TYPE,
  type TreeNode,
} from './tree/format/tree-format.ts';
export { parseTreeNode } from './tree/format/tree-node.ts';
export { createPatientClient } from './tree/jobs/patient-client.ts';
export { PUSH_PARALLEL_MAX_DEFAULT, requestPatiently } from './tree/jobs/patient-requests.ts';
export {
  type ProgressCounters,
  type ProgressReporter,
  type ProgressTotals,
  SILENT_PROGRESS,
  shortenText,
} from './tree/jobs/progress.ts';
export { type EarlyCounts, EarlyNodes } from './tree/push/early-nodes.ts';
export { type NodeSupply, type PushNode, SourceChangedError } from './tree/push/node-supply.ts';
export { type PushPlan, planPush } from './tree/push/plan-push.ts';
export { type PushResult, pushTree } from './tree/push/push-tree.ts';
export { formatName } from './tree/walk/tree-path.ts';
