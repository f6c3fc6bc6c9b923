/** One run of `holdfast copy`: trees first, then the snapshots that name them. */
import {
  BundleError,
  type CatalogMemory,
  type Client,
  CopySourceError,
  changeNames,
  copyNodes,
  RottenNodeError,
  readNames,
  type Snapshot,
  VerificationError,
} from '@holdfast/client/internal';
import { createCollectingDigest, ResidentMemory, releaseMemory } from '@holdfast/files';
import type { JobContext } from '../progress/run-job.ts';
import { listLacking, type Wanted } from './copied-snapshots.ts';
import { warnOfUnreadable } from './reference.ts';

interface LeftOut {
  readonly name?: string;
  readonly id?: string;
  readonly root: string;
  readonly why: string;
}

interface Spaces {
  readonly source: Client;
  readonly target: Client;
  readonly wanted: Wanted;
  readonly context: JobContext;
}

export class CopyJob {
  /** added */
  readonly snapshots: Snapshot[] = [];
  readonly removed: Snapshot[] = [];
  readonly leftOut: LeftOut[] = [];
  sentNodes = 0;
  sentBytes = 0;
  readonly #memory = new ResidentMemory();
  readonly #catalogs: CatalogMemory = new Map();
  #sourceFailure: { readonly error: unknown } | undefined;

  /** Throws CatalogError and CasError of the target. A failure of the source ends it; `throwOfSource` tells it. */
  async run(spaces: Spaces): Promise<void> {
    const { target, wanted, context } = spaces;
    for (const { hash, message } of wanted.unreadable) this.leftOut.push({ root: hash, why: message });
    const names = await readNames(target, { ...context, memory: this.#catalogs });
    warnOfUnreadable(names, context.progress);
    context.progress.phase('transfer');
    const isAnyPruned = names.snapshots.some(wanted.isPruned);
    let copied: Snapshot[] = [];
    let listedBytes = 0;
    for (const snapshot of listLacking(wanted, names.snapshots)) {
      if (await this.#copyTree(snapshot, spaces)) copied.push(snapshot);
      if (this.#sourceFailure !== undefined) break;
      // Once the snapshots are listed no lease keeps their trees, and no interruption loses them.
      if (this.sentBytes - listedBytes < 64 * 1024 * 1024) continue;
      await this.#list(copied, spaces, false);
      listedBytes = this.sentBytes;
      copied = [];
    }
    const isPruning = isAnyPruned && this.#sourceFailure === undefined;
    if (copied.length > 0 || isPruning) await this.#list(copied, spaces, isPruning);
  }

  /** Throws what ended the run, if the source did. */
  throwOfSource(): void {
    if (this.#sourceFailure !== undefined) throw this.#sourceFailure.error;
  }

  /** Whether the target has all of the tree. */
  async #copyTree({ name, id, root }: Snapshot, { source, target, context }: Spaces): Promise<boolean> {
    const { progress, signal } = context;
    let done = { nodes: 0, nodeBytes: 0, uploadedNodes: 0, uploadedBytes: 0 };
    const onNode = (next: typeof done): void => {
      const bytes = next.nodeBytes - done.nodeBytes;
      const nodes = next.uploadedNodes - done.uploadedNodes;
      const sentBytes = next.uploadedBytes - done.uploadedBytes;
      // As they were read: the memory of a node is given back, and that of packs is used again.
      this.#memory.passed(bytes);
      this.sentNodes += nodes;
      this.sentBytes += sentBytes;
      progress.count({
        ...{ files: next.nodes - done.nodes, bytes, deduplicatedBytes: bytes - sentBytes },
        ...{ transferredNodes: nodes, transferredBytes: sentBytes },
      });
      done = next;
    };
    try {
      await copyNodes(source, target, root, {
        signal,
        onNode,
        digest: createCollectingDigest(),
        release: releaseMemory,
      });
      return true;
    } catch (error) {
      if (!(error instanceof CopySourceError)) throw error;
      const { cause } = error;
      if (isOfNode(cause)) {
        this.leftOut.push({ name, id, root, why: cause.message });
        progress.warn(`${name}@${id} is left out: ${cause.message}`);
      } else this.#sourceFailure = { error: cause };
      return false;
    }
  }

  async #list(
    copied: readonly Snapshot[],
    { target, wanted, context }: Spaces,
    isPruning: boolean,
  ): Promise<void> {
    const { isRenamed, isPruned } = wanted;
    let added: readonly Snapshot[] = [];
    let removed: readonly Snapshot[] = [];
    await changeNames(
      target,
      (listed) => {
        added = listLacking({ snapshots: copied, isRenamed }, listed);
        removed = isPruning ? listed.filter(isPruned) : [];
        if (added.length === 0 && removed.length === 0) return undefined;
        const gone = new Set(removed);
        return [...listed.filter((snapshot) => !gone.has(snapshot)), ...added];
      },
      { signal: context.signal, memory: this.#catalogs },
    );
    this.snapshots.push(...added);
    this.removed.push(...removed);
  }
}

/** The tree cannot be read whole. Else the source cannot be read at all, for now. */
function isOfNode(error: unknown): error is Error {
  return (
    error instanceof BundleError || error instanceof RottenNodeError || error instanceof VerificationError
  );
}
