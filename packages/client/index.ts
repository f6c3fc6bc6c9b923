/** The SDK of the Space API: zero dependencies, web standards only. */
export type {
  BulkLeaseResponse,
  BulkLeaseResult,
  Compress,
  GcResult,
  Hash,
  Health,
  LeaseResponse,
  NodeDescription,
  NodeMetadata,
  NodeState,
  PackInstruction,
  PackLeaseResponse,
  PackLeaseResult,
  Rejection,
  RootRefItem,
  RootRefPage,
  SpaceUsage,
  Unzstd,
  UpdateRootRefsResponse,
  UploadInstruction,
} from '@holdfast/protocol';
export { TokenRenewalError, type TokenSource } from './authorization.ts';
export type { Bulk, BulkLease, Zstd } from './bulk/bulk.ts';
export type { BulkNode, ReadRecordsOptions, UnprovenNode } from './bulk/read-nodes.ts';
export { BundleError } from './bundle/bundle-error.ts';
export { formatCid } from './bundle/cid.ts';
export { type CreateBundleOptions, createBundle } from './bundle/create-bundle.ts';
export { type ImportBundleResult, type ImportedRoot, importBundle } from './bundle/import-bundle.ts';
export {
  type BundleNode,
  type BundleReader,
  type ReadBundleOptions,
  readBundle,
} from './bundle/read-bundle.ts';
export type { ImportBundleOptions, ImportProgress } from './bundle/storing.ts';
export { CatalogError, type CatalogErrorCode } from './catalog/catalog-error.ts';
export {
  CATALOG_CONTENT_TYPE,
  CATALOG_INDEX_CONTENT_TYPE,
  type Catalog,
  encodeCatalog,
  isSnapshotName,
  parseCatalog,
  type Snapshot,
} from './catalog/catalog-format.ts';
export type { CatalogWriter, ChangedNames, ChangeOptions, NamesCommit } from './catalog/change-names.ts';
export {
  checkSnapshotId,
  checkSnapshotName,
  findSnapshot,
  findSnapshotsOf,
} from './catalog/find-snapshot.ts';
export {
  type CatalogMemory,
  type CatalogOptions,
  type CatalogReader,
  type DomainNames,
  readNames,
  type StandingCatalog,
  type UnreadableCatalog,
} from './catalog/read-catalogs.ts';
export {
  findReference,
  parseReference,
  type ResolvedReference,
  resolveReference,
  type TreeReference,
} from './catalog/resolve-reference.ts';
export {
  decideRetention,
  type JudgedSnapshot,
  type Retention,
  type RetentionPolicy,
} from './catalog/retention.ts';
export {
  type AddedSnapshot,
  addSnapshot,
  type ChangedSnapshot,
  decideForgetting,
  type Forgetting,
  type Forgotten,
  forgetSnapshots,
  makeSnapshotId,
  type NewSnapshot,
  setPinned,
} from './catalog/snapshots.ts';
export { type UnforgetOptions, unforgetSnapshot } from './catalog/unforget.ts';
export { type Client, createClient } from './client.ts';
export type { ClientOptions } from './client-options.ts';
export type { ContentRange, NodeContent } from './content.ts';
export type { Clock } from './deadline.ts';
export type { NodeDigest } from './digest.ts';
export {
  CasError,
  type CasErrorCode,
  type ClientErrorCode,
  type RequestOperation,
  VerificationError,
} from './errors.ts';
export {
  type LeaseKeeper,
  type LeaseKeeperEvent,
  type LeaseKeeperOptions,
  startLeaseKeeper,
} from './lease-keeper.ts';
export type { Timeouts } from './limits.ts';
export { hashNode, type NewNode } from './new-node.ts';
export type { CallOptions, RotNotice } from './operations.ts';
export type { PutOptions, PutResult } from './put-node.ts';
export type { RetryPolicy } from './retry.ts';
export type { RootRefsOptions } from './root-ref-pages.ts';
export { RottenNodeError } from './rotten-node.ts';
export type { Sha256 } from './sha256.ts';
export { createTokenSource, type TokenSourceOptions } from './token-source.ts';
export type { FetchFunction } from './transport.ts';
export {
  type BuiltDirectory,
  type BuiltFile,
  buildFile,
  buildSmallFile,
  buildSymlink,
  DirectoryBuilder,
  FileBuilder,
  FileIndexBuilder,
  type NodeSink,
} from './tree/build/builders.ts';
export { chunkStream, findChunkEnd } from './tree/format/chunker.ts';
export {
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  CHUNK_CONTENT_TYPE,
  compareNames,
  type DirectoryEntry,
  type DirectoryIndex,
  type DirectoryIndexChild,
  type EntryKind,
  FILE_CONTENT_TYPE,
  type FileIndex,
  type FileIndexChild,
  findNameFault,
  findSymlinkTargetFault,
  MTIME_NS_MAX,
  MTIME_NS_MIN,
  type NodeParts,
  SYMLINK_CONTENT_TYPE,
  TreeFormatError,
  type TreeNode,
  type TreeTotals,
} from './tree/format/tree-format.ts';
export { type ParsedNode, parseTreeNode } from './tree/format/tree-node.ts';
export { PUSH_PARALLEL_MAX_DEFAULT } from './tree/jobs/job-limits.ts';
export { createPatientClient, type PatientClientOptions } from './tree/jobs/patient-client.ts';
export { requestPatiently } from './tree/jobs/patient-requests.ts';
export {
  createPatientSource,
  type PatientSourceOptions,
  type ReadingClient,
} from './tree/jobs/patient-source.ts';
export {
  type JobHangError,
  type ProgressCounters,
  type ProgressEvent,
  type ProgressJob,
  type ProgressPhase,
  type ProgressReporter,
  type ProgressSnapshot,
  type ProgressTotals,
  type RunningProgress,
  SILENT_PROGRESS,
  startProgress,
} from './tree/jobs/progress.ts';
export { type StreamWaits, watchStream } from './tree/jobs/watch-stream.ts';
export { type Conflict, PullConflictError } from './tree/pull/check-target.ts';
export { type PullOptions, type PullResult, pullTree } from './tree/pull/pull-tree.ts';
export {
  type ExistingFile,
  type FinishedFolder,
  type FoundEntry,
  type MissingEntries,
  type NewFile,
  type PartialFile,
  type PullTarget,
  PullTargetError,
  type UnprovenFile,
} from './tree/pull/target.ts';
export { type EarlyCounts, EarlyNodes } from './tree/push/early-nodes.ts';
export { MemoryTree } from './tree/push/memory-tree.ts';
export { type NodeSupply, type PushNode, SourceChangedError } from './tree/push/node-supply.ts';
export { type PushPlan, planPush } from './tree/push/plan-push.ts';
export { type PushClient, type PushOptions, type PushResult, pushTree } from './tree/push/push-tree.ts';
export {
  type PutFileOptions,
  type PutFileProgress,
  type PutFileResult,
  putFile,
} from './tree/push/put-file.ts';
export type { ByteRange, FileReadOptions } from './tree/read/file-parts.ts';
export { getFile, type StoredFile } from './tree/read/get-file.ts';
export type {
  DirectoryRef,
  FileRef,
  NodeSource,
  ReadOptions,
  UnprovenReadOptions,
  UnprovenRecord,
} from './tree/read/node-source.ts';
export {
  createNodeSource,
  openTree,
  type TreeItem,
  TreePathError,
  type TreeReader,
} from './tree/read/open-tree.ts';
export { diffWithRenames, type Rename, type RenameOptions } from './tree/walk/diff-renames.ts';
export {
  type Difference,
  type DifferenceAspect,
  type DifferenceKind,
  diffTrees,
} from './tree/walk/diff-trees.ts';
export {
  measureTrees,
  measureTreesOnly,
  type TreeUsage,
  USAGE_ROOTS_MAX,
} from './tree/walk/measure-trees.ts';
export {
  findText,
  formatName,
  formatPath,
  pathBytes,
  pathNames,
  type TreePath,
} from './tree/walk/tree-path.ts';
export { explainNodeError, TreeReadError } from './tree/walk/tree-read-error.ts';
export {
  type TreeFault,
  type VerifyOptions,
  type VerifyResult,
  verifyTree,
} from './tree/walk/verify-tree.ts';
export { type LeftDirectory, type WalkedEntry, type WalkOptions, walkTree } from './tree/walk/walk-tree.ts';
export type { OpenNode, VerifiedNode } from './verified-read.ts';
