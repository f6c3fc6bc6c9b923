/** Edits of the tree that a name stands for: the latest snapshot is read, changed, and followed by another. */
import { LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import { type CheckedCall, checkNumber } from '../arguments.ts';
import { checkMessage, type Snapshot } from '../catalog/catalog-format.ts';
import { type CatalogWriter, type ChangeOptions, changeNames } from '../catalog/change-names.ts';
import { findHead, timeAfter } from '../catalog/compare-and-set.ts';
import { checkSnapshotName } from '../catalog/find-snapshot.ts';
import { makeSnapshotId } from '../catalog/snapshots.ts';
import { systemClock } from '../deadline.ts';
import { hashNode, type NewNode } from '../new-node.ts';
import type { PutOptions, PutResult } from '../put-node.ts';
import {
  type EditClient,
  type EditTreeOptions,
  type TreeEdited,
  TreeEditor,
} from '../tree/edit/edit-tree.ts';
import type { TreeEdit } from '../tree/edit/tree-edit.ts';

export interface EditNameOptions extends Omit<EditTreeOptions, 'leaseDurationMs'>, ChangeOptions {
  /** what the snapshot says of the edit, at most 1,024 bytes of UTF-8 */
  readonly message?: string | undefined;
  /** where it comes from, as the list shows it; empty when left out */
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  /**
   * The new snapshot takes the place of the last one of this process if that is the latest of the name, is not pinned, and its first edit is
   * younger than `within`, ms. `latest`: any latest snapshot that is not pinned, made by anyone.
   */
  readonly amend?: { readonly within: number } | 'latest' | undefined;
  /** Judges the head before the edits are done on it, again on each newer one; what it throws ends the call. */
  readonly check?: ((head: Snapshot | undefined) => void | Promise<void>) | undefined;
}

export interface NameEdited extends TreeEdited {
  readonly snapshot: Snapshot;
}

const EDIT_NAME: CheckedCall = { name: 'editName', requestOperation: 'uploadNode' };

/** When the first edit was, for each snapshot that this process made. */
const firstEditAt = new Map<string, number>();

/**
 * Does `edits` on the head of `name` (an empty folder where there is none) and lists the result as its newest snapshot. If another writer is
 * faster the same edits are done on the new head, so that two who edit different paths both win. Rejects with EditError for an edit
 * that makes no sense (there), with CatalogError, TreeFormatError, CasError, or the signal's reason; the head is then as it was.
 */
export async function editName(
  client: CatalogWriter & EditClient,
  name: string,
  edits: readonly TreeEdit[],
  options: EditNameOptions = {},
): Promise<NameEdited> {
  checkSnapshotName(name);
  checkMessage(options.message);
  const { amend } = options;
  if (amend !== undefined && amend !== 'latest') checkNumber(EDIT_NAME, 'within', amend.within, 0);
  const { clock = systemClock, host = '', path = '' } = options;
  const editor = new TreeEditor(EDIT_NAME, client, edits, options);
  await editor.prepare();
  const beganAt = clock.now();
  let edited: Omit<NameEdited, 'sentNodes' | 'sentBytes'> | undefined;
  let amended: Snapshot | undefined;
  await changeNames(
    joinCatalog(client, editor),
    async (snapshots) => {
      const head = findHead(snapshots, name);
      await options.check?.(head);
      const tree = await editor.apply(head?.root);
      amended = findAmended(head, clock.now(), options);
      const message = options.message || amended?.message;
      const time = timeAfter(head, clock.now());
      const place = { id: makeSnapshotId(), name, root: tree.root, time, host, path, bytes: tree.bytes };
      const snapshot: Snapshot = { ...place, ...(message ? { message } : {}) };
      edited = { ...tree, snapshot };
      return [...snapshots.filter(({ id }) => id !== amended?.id), snapshot];
    },
    options,
  );
  if (edited === undefined) throw new TypeError('a change of names calls what it was given');
  remember(edited.snapshot.id, amended, beganAt);
  const { sentNodes, sentBytes } = editor.sender;
  return { ...edited, sentNodes, sentBytes };
}

/** The catalog travels with the nodes of the edit, which it refers to: a small edit is one pack. */
function joinCatalog(client: CatalogWriter & EditClient, { sender }: TreeEditor): CatalogWriter {
  return {
    ...(client.bulk === undefined ? {} : { bulk: client.bulk }),
    rootRefs: (options) => client.rootRefs(options),
    readMetadata: (hash, options) => client.readMetadata(hash, options),
    getNode: (hash, options) => client.getNode(hash, options),
    leaseNode: (hash, lease, options) => client.leaseNode(hash, lease, options),
    updateRootRefs: (commit, options) => client.updateRootRefs(commit, options),
    async putNode(node: NewNode, options: PutOptions = {}): Promise<PutResult> {
      const { leaseDurationMs = LEASE_DURATION_MS_MIN } = options;
      const { last } = await sender.finish(leaseDurationMs, { ...node, hash: await hashNode(node) });
      return last ?? client.putNode(node, options);
    },
  };
}

function findAmended(
  head: Snapshot | undefined,
  now: number,
  { amend }: EditNameOptions,
): Snapshot | undefined {
  if (amend === undefined || head === undefined || head.pinned) return undefined;
  if (amend === 'latest') return head;
  const beganAt = firstEditAt.get(head.id);
  return beganAt !== undefined && now - beganAt < amend.within ? head : undefined;
}

function remember(id: string, amended: Snapshot | undefined, beganAt: number): void {
  firstEditAt.set(id, (amended && firstEditAt.get(amended.id)) ?? beganAt);
  if (amended !== undefined) firstEditAt.delete(amended.id);
  const [oldest] = firstEditAt.keys();
  if (firstEditAt.size > 10_000 && oldest !== undefined) firstEditAt.delete(oldest);
}
