/** The SDK of the Space API: zero dependencies, web standards only. Each name has a use in README.md; at most 80. */
export type { Hash } from '@holdfast/protocol';
export { TokenRenewalError, type TokenSource } from './authorization.ts';
export { BundleError } from './bundle/cid.ts';
export { createBundle } from './bundle/create-bundle.ts';
export { importBundle } from './bundle/import-bundle.ts';
export { readBundle } from './bundle/read-bundle.ts';
export { CatalogError } from './catalog/catalog-error.ts';
export { encodeCatalog, parseCatalog, type Snapshot } from './catalog/catalog-format.ts';
export { compareAndSetName } from './catalog/compare-and-set.ts';
export { readNames } from './catalog/read-catalogs.ts';
export { findReference, parseReference, resolveReference } from './catalog/resolve-reference.ts';
export { decideRetention } from './catalog/retention.ts';
export {
  addSnapshot,
  decideForgetting,
  forgetSnapshots,
  makeSnapshotId,
  setPinned,
} from './catalog/snapshots.ts';
export { unforgetSnapshot } from './catalog/unforget.ts';
export { type Client, createClient } from './client.ts';
export type { ClientOptions } from './client-options.ts';
export type { NodeContent } from './content.ts';
export { CasError, type CasErrorCode, VerificationError } from './errors.ts';
export { editName } from './heads/edit-name.ts';
export { type LeaseKeeper, type LeaseKeeperEvent, startLeaseKeeper } from './lease-keeper.ts';
export { hashNode, type NewNode } from './new-node.ts';
export type { PutResult } from './put-node.ts';
export { RottenNodeError } from './rotten-node.ts';
export { createTokenSource } from './token-source.ts';
export {
  buildFile,
  buildSmallFile,
  buildSymlink,
  DirectoryBuilder,
  FileBuilder,
} from './tree/build/builders.ts';
export { EditError } from './tree/edit/edit-error.ts';
export { editTree } from './tree/edit/edit-tree.ts';
export type { TreeEdit } from './tree/edit/tree-edit.ts';
export { type DirectoryEntry, TreeFormatError } from './tree/format/tree-format.ts';
export { createPatientClient } from './tree/jobs/patient-client.ts';
export { createPatientSource } from './tree/jobs/patient-source.ts';
export { type ProgressEvent, startProgress } from './tree/jobs/progress.ts';
export { watchStream } from './tree/jobs/watch-stream.ts';
export { PullConflictError } from './tree/pull/check-target.ts';
export { pullTree } from './tree/pull/pull-tree.ts';
export { type PullTarget, PullTargetError } from './tree/pull/target.ts';
export { MemoryTree } from './tree/push/memory-tree.ts';
export { type NodeSupply, SourceChangedError } from './tree/push/node-supply.ts';
export { planPush } from './tree/push/plan-push.ts';
export { pushTree } from './tree/push/push-tree.ts';
export { putFile } from './tree/push/put-file.ts';
export { getFile } from './tree/read/get-file.ts';
export type { NodeSource } from './tree/read/node-source.ts';
export { createNodeSource, openTree, type TreeItem, TreePathError } from './tree/read/open-tree.ts';
export { diffTrees } from './tree/walk/diff-trees.ts';
export { measureTrees } from './tree/walk/measure-trees.ts';
export { formatName, formatPath } from './tree/walk/tree-path.ts';
export { TreeReadError } from './tree/walk/tree-read-error.ts';
export { verifyTree } from './tree/walk/verify-tree.ts';
export { walkTree } from './tree/walk/walk-tree.ts';
export type { VerifiedNode } from './verified-read.ts';
