/** Names for the other packages of this repository, besides the SDK's door. They are no promise to anybody else. */

export type {
  GcResult,
  NodeDescription,
  NodeState,
  RootRefItem,
  RootRefPage,
  SpaceUsage,
} from '@holdfast/protocol';
export { formatCid } from './bundle/cid.ts';
export { CopySourceError, copyNodes } from './bundle/copy-nodes.ts';
export type { ImportBundleResult } from './bundle/import-bundle.ts';
export {
  CATALOG_CONTENT_TYPE,
  type CopiedFrom,
  checkMessage,
  isSnapshotName,
} from './catalog/catalog-format.ts';
export { changeNames, type NamesHolder } from './catalog/change-names.ts';
export type { CatalogMemory, CatalogReader, DomainNames } from './catalog/read-catalogs.ts';
export type { TreeReference } from './catalog/resolve-reference.ts';
export type { Retention, RetentionPolicy } from './catalog/retention.ts';
export type { Forgetting } from './catalog/snapshots.ts';
export type { ContentRange } from './content.ts';
export * from './index.ts';
export { mapInOrder } from './map-in-order.ts';
export * from './push.ts';
export { EDITED_NAME_BYTES_MAX, parseEditPath } from './tree/edit/tree-edit.ts';
export { chunkStream } from './tree/format/chunker.ts';
export {
  compareNames,
  type DirectoryIndexChild,
  type FileIndexChild,
  findSymlinkTargetFault,
  NAME_BYTES_MAX,
  type NodeParts,
} from './tree/format/tree-format.ts';
export type { ParsedNode } from './tree/format/tree-node.ts';
export { Kept } from './tree/jobs/kept.ts';
export { type PatientSourceOptions, type ReadingClient, weighNode } from './tree/jobs/patient-source.ts';
export type { ProgressJob, ProgressPhase, ProgressSnapshot } from './tree/jobs/progress.ts';
export type { PullOptions, PullResult } from './tree/pull/pull-tree.ts';
export type {
  ExistingFile,
  FinishedFolder,
  FoundEntry,
  MissingEntries,
  NewFile,
  PartialFile,
  UnprovenFile,
} from './tree/pull/target.ts';
export { type ExpectedDirectoryPart, expectChild, readDirectoryPart } from './tree/read/directory-parts.ts';
export { type ExpectedFilePart, readFilePart } from './tree/read/file-parts.ts';
export type { FolderKeeper, UnprovenRecord } from './tree/read/node-source.ts';
export type { TreeReader } from './tree/read/open-tree.ts';
export { diffWithRenames, type Rename } from './tree/walk/diff-renames.ts';
export type { Difference } from './tree/walk/diff-trees.ts';
export { measureTreesOnly, type TreeUsage, USAGE_ROOTS_MAX } from './tree/walk/measure-trees.ts';
export { findText, pathBytes, pathNames, type TreePath } from './tree/walk/tree-path.ts';
export { explainNodeError } from './tree/walk/tree-read-error.ts';
export type { TreeFault } from './tree/walk/verify-tree.ts';
export type { WalkedEntry } from './tree/walk/walk-tree.ts';
