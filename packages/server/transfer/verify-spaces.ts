/** The second phase: compares every row field by field, looks for every object, and compares counters with the sum of rows. */
import { bytesToHash, type Hash } from '@holdfast/protocol';
import { mapSome } from '../core/batches.ts';
import { isProofOfRot, storedObject } from '../core/contents.ts';
import type { ContentRow } from '../core/model.ts';
import { sha256 } from '../core/signer.ts';
import { addUsage, totalUsage, USAGE_NONE, type UsageDelta } from '../core/usage-delta.ts';
import type { BatchPart, ListedSpace, NodeEntry, UploadEntry } from '../engine/transfer-ports.ts';
import { ServeError } from '../errors.ts';
import { verifyAtSource } from './carry.ts';
import {
  advance,
  type CopyRun,
  countNodes,
  describeSpace,
  patiently,
  type SpaceVisit,
  saveCheckpoint,
  tellProgress,
  visitSpaces,
} from './copy-run.ts';
import type { WalkedPage } from './walk-space.ts';

export async function verifySpaces(run: CopyRun): Promise<void> {
  const saving = { at: performance.now() };
  await visitSpaces(run, (listed) => new SpaceVerification(run, listed, saving));
  const { spaces } = await patiently(run.patience, () => run.target.rows.readTotals());
  if (spaces !== run.checkpoint.counts.spaces) {
    throw differs(`the target has ${spaces} Spaces, the source ${run.checkpoint.counts.spaces}`);
  }
}

class SpaceVerification implements SpaceVisit {
  readonly #run: CopyRun;
  readonly #listed: ListedSpace;
  readonly #saving: { at: number };

  constructor(run: CopyRun, listed: ListedSpace, saving: { at: number }) {
    this.#run = run;
    this.#listed = listed;
    this.#saving = saving;
  }

  async page(page: WalkedPage): Promise<void> {
    const run = this.#run;
    const tally = addUsage(run.checkpoint.tally, await this.#comparePage(page));
    if (page.next === undefined) await this.#compareCounters(tally);
    const checkpoint = advance({ ...run.checkpoint, tally }, this.#listed, page, countNodes(page));
    run.checkpoint = checkpoint;
    // This phase writes nothing else.
    if (performance.now() - this.#saving.at >= 500) {
      await saveCheckpoint(run, checkpoint);
      this.#saving.at = performance.now();
    }
    tellProgress(run);
  }

  /** Resolves with what the target's nodes of the page add to its counters. */
  async #comparePage(page: WalkedPage): Promise<UsageDelta> {
    const { part } = page;
    const found = await this.#readTarget(page);
    if (found.entries.length !== part.entries.length) {
      throw this.#differs(`${part.kind}: ${found.entries.length} rows arrived of ${part.entries.length}`);
    }
    if (part.kind === 'nodes' && found.kind === 'nodes') {
      await this.#compareAll(part.entries, found.entries, (left, right) => this.#compareNode(left, right));
      return totalUsage(found.entries.map(({ row }) => row));
    }
    if (part.kind === 'uploads' && found.kind === 'uploads') {
      await this.#compareAll(part.entries, found.entries, (left, right) => this.#compareUpload(left, right));
    } else if (!Bun.deepEquals(part.entries, found.entries)) {
      throw this.#differs(`${part.kind} of the domain ${JSON.stringify(part.domain)} are not the same`);
    }
    return USAGE_NONE;
  }

  /** Reads the same entries from the target: a page of nodes may have been cut because of its bytes. */
  async #readTarget({ part, next }: WalkedPage): Promise<BatchPart> {
    const { kind, domain } = part;
    const { space } = this.#listed;
    const { place } = this.#run.checkpoint;
    const limit = this.#run.limits.pageEntriesMax;
    const entries = await patiently(this.#run.patience, () =>
      this.#run.target.rows.readPage({ space, kind, domain, after: place.after, limit }),
    );
    const end = next?.kind === kind ? part.entries.length : entries.length;
    return { kind, domain, entries: entries.slice(0, end) } as BatchPart;
  }

  async #compareAll<T>(
    source: readonly T[],
    target: readonly T[],
    compare: (source: T, target: T) => Promise<void>,
  ): Promise<void> {
    const pairs = source.map((entry, index) => [entry, target[index] as T] as const);
    const { patience, limits } = this.#run;
    await mapSome(pairs, limits.objectsInFlightMax, ([left, right]) =>
      patiently(patience, () => compare(left, right)),
    );
  }

  async #compareNode(source: NodeEntry, target: NodeEntry): Promise<void> {
    const { row } = target;
    const expected = { ...source.row, state: row.state, storage: row.storage, claimHeldUntil: 0 };
    if (!Bun.deepEquals(expected, row))
      throw this.#differs(`the row of node ${source.row.hash} is not the same`);
    const isRecorded =
      target.content?.generation === row.generation &&
      target.content.canonicalSize === row.canonicalSize &&
      (target.content.inlineBytes !== undefined) === (row.storage === 'inline');
    if (!isRecorded) throw this.#differs(`the content record of node ${row.hash} is not right`);
    const hasState = row.state === source.row.state;
    const needsBytes = row.state === 'ready' || row.state === 'waiting';
    if (hasState && (!needsBytes || (await this.#hasBytes(target.content, row.hash)))) return;
    const isExcusable = row.state === 'waiting' || (row.state === 'rotten' && source.row.state === 'ready');
    if (isExcusable && (await this.#isDamagedAtSource(source.content, row.hash))) return;
    throw this.#differs(
      `node ${row.hash} is ${row.state}, in the source ${source.row.state}, or lacks its bytes`,
    );
  }

  async #compareUpload(source: UploadEntry, target: UploadEntry): Promise<void> {
    const { hash, evidence } = target.row;
    const known = { evidence: undefined, seenBytes: undefined };
    if (!Bun.deepEquals({ ...source.row, ...known }, { ...target.row, ...known })) {
      throw this.#differs(`the unfinished upload of ${hash} is not the same`);
    }
    if (evidence?.verdict === 'good') {
      if (!(await this.#hasBytes(target.content, hash))) {
        throw this.#differs(`the finished upload of ${hash} lacks its bytes`);
      }
    } else if (evidence === undefined && source.row.evidence?.verdict === 'bad') {
      throw this.#differs(`the upload of ${hash} lacks its verdict`);
    }
  }

  async #hasBytes(content: ContentRow | undefined, hash: Hash): Promise<boolean> {
    if (content === undefined) return false;
    if (content.inlineBytes !== undefined) return bytesToHash(sha256(content.inlineBytes)) === hash;
    return this.#run.target.intake.isThere(storedObject(this.#listed.space, content));
  }

  async #isDamagedAtSource(content: ContentRow | undefined, hash: Hash): Promise<boolean> {
    if (content === undefined) return true;
    try {
      await verifyAtSource(this.#run.source.bytes, this.#listed.space, hash, content);
      return false;
    } catch (error) {
      if (isProofOfRot(error)) return true;
      throw error;
    }
  }

  /** Leaves out `leasedNodeCount`: it changes with time, and the two stores have two clocks. */
  async #compareCounters(tally: UsageDelta): Promise<void> {
    const { leasedNodeCount: _, ...kept } = await patiently(this.#run.patience, () =>
      this.#run.target.rows.readCounters(this.#listed.space),
    );
    if (!Bun.deepEquals(kept, tally)) {
      throw this.#differs(`its counters are ${JSON.stringify(kept)}, its rows say ${JSON.stringify(tally)}`);
    }
    await this.#compareSourceCounter(tally);
  }

  /** A damaged page of the source's database may hide rows. A copy may change the state of a node, never the number of nodes. */
  async #compareSourceCounter({ nodeCount }: UsageDelta): Promise<void> {
    const { space } = this.#listed;
    const counters = await patiently(this.#run.patience, () => this.#run.source.rows.readCounters(space));
    if (counters.nodeCount === nodeCount) return;
    throw new ServeError(
      `the source is damaged: ${describeSpace(space)} has ${counters.nodeCount} nodes by its counter, and ${nodeCount} rows of nodes; restore a backup of it`,
    );
  }

  #differs(what: string): ServeError {
    return differs(`${describeSpace(this.#listed.space)}: ${what}`);
  }
}

function differs(what: string): ServeError {
  return new ServeError(`the copy differs from the source: ${what}; empty the target and begin again`);
}
