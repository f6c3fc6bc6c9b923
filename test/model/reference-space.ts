/**
 * One Space of the reference model: nodes, uploads, leases, usage and collection, written from docs/api.md alone, without
 * a look at the product's rules. Everything is recomputed by scanning: slow, plain, and with no counter that could be wrong.
 */
import { getPoolNode } from './node-pool.ts';
import { ReferencePacks } from './reference-packs.ts';
import { ReferenceRootRefs, type RefTarget } from './reference-root-refs.ts';
import { clampMs, judge, MODEL_SETTINGS, type ModelNode } from './reference-rules.ts';

export interface ModelUpload {
  readonly generation: number;
  urlExpiresAt: number;
  touchedAt: number;
  rejection: string | undefined;
  /** what an acknowledged PUT left; 'too-large' after a body that was cut off */
  object: Uint8Array | 'too-large' | undefined;
  /** PUTs whose headers were accepted and whose body is under way */
  receiving: number;
}

export type ExpectedLease =
  | { readonly state: 'ready'; readonly leaseStartedAt: number; readonly leaseExpiresAt: number }
  | { readonly state: 'validated_awaiting_children'; readonly childHashes: readonly string[] }
  | {
      readonly state: 'awaiting_upload' | 'awaiting_replacement_upload';
      readonly rejection: string | undefined;
      readonly upload: ModelUpload;
      /** instants the instruction may name: re-signing an unexpired URL is allowed, not required */
      readonly expiresAt: readonly number[];
    }
  | { readonly error: 'CAS_UPLOAD_LIMIT' };

export class ReferenceSpace {
  readonly nodes = new Map<string, ModelNode>();
  readonly uploads = new Map<string, ModelUpload>();
  readonly packs: ReferencePacks;
  readonly rootRefs = new ReferenceRootRefs();
  /** declared lengths of the PUTs under way */
  readonly receiving = new Map<number, number>();
  #generations = 0;

  constructor(isDirect: boolean) {
    this.packs = new ReferencePacks(this, isDirect);
  }

  lease(now: number, hash: string, requestedMs: number): ExpectedLease {
    const durationMs = clampMs(requestedMs);
    const node = this.nodes.get(hash);
    if (node?.state === 'ready') return renew(now, node, durationMs);
    if (node?.state === 'waiting') {
      node.touchedAt = now;
      return this.settle(now, node, durationMs);
    }
    const upload = this.uploads.get(hash);
    if (upload?.object !== undefined) {
      const rejection = judge(hash, upload.object);
      if (rejection !== undefined) return this.#newGeneration(now, hash, rejection);
      this.uploads.delete(hash);
      return this.accept(now, hash, durationMs, getPoolNode(hash).bytes.length);
    }
    if (upload !== undefined && (upload.urlExpiresAt > now || upload.receiving > 0)) {
      upload.touchedAt = now;
      const kept = upload.urlExpiresAt > now ? [upload.urlExpiresAt] : [];
      return awaiting(upload, [...kept, now + MODEL_SETTINGS.uploadTtlMs]);
    }
    return this.#newGeneration(now, hash, upload?.rejection);
  }

  #newGeneration(now: number, hash: string, rejection: string | undefined): ExpectedLease {
    if (this.countActive(now, hash) >= MODEL_SETTINGS.activeUploadsMax) return { error: 'CAS_UPLOAD_LIMIT' };
    this.#generations += 1;
    const urlExpiresAt = now + MODEL_SETTINGS.uploadTtlMs;
    const upload: ModelUpload = {
      generation: this.#generations,
      urlExpiresAt,
      touchedAt: now,
      rejection,
      object: undefined,
      receiving: 0,
    };
    this.uploads.set(hash, upload);
    return awaiting(upload, [urlExpiresAt]);
  }

  /** Uploads but that of `hash`, and packs. */
  countActive(now: number, hash?: string): number {
    const uploads = [...this.uploads].filter(
      ([other, { urlExpiresAt }]) => other !== hash && urlExpiresAt > now,
    );
    return uploads.length + this.packs.countActive(now);
  }

  /** Good bytes: a new row waits for its children; a rotten or claimed one is healed whatever its children are. */
  accept(now: number, hash: string, durationMs: number, storedBytes: number): ExpectedLease {
    const known = this.nodes.get(hash);
    if (known !== undefined) {
      known.state = 'ready';
      known.bytes = 'good';
      known.storedBytes = storedBytes;
      return renew(now, known, durationMs);
    }
    const node: ModelNode = {
      hash,
      state: 'waiting',
      leaseStartedAt: 0,
      leaseExpiresAt: 0,
      touchedAt: now,
      bytes: 'good',
      storedBytes,
    };
    this.nodes.set(hash, node);
    return this.settle(now, node, durationMs);
  }

  /** Renews a ready node; a waiting one becomes ready if its children are. */
  settle(now: number, node: ModelNode, durationMs: number): ExpectedLease {
    if (node.state === 'ready') return renew(now, node, durationMs);
    const distinct = [...new Set(getPoolNode(node.hash).refs)];
    const childHashes = distinct.filter((child) => this.nodes.get(child)?.state !== 'ready');
    if (childHashes.length > 0) return { state: 'validated_awaiting_children', childHashes };
    node.state = 'ready';
    return renew(now, node, durationMs);
  }

  /** The PUT's headers are in and its URL is good: 412 unless the generation is current and unfinished. */
  acceptsPut(hash: string, generation: number): boolean {
    const upload = this.uploads.get(hash);
    return upload?.generation === generation && upload.object === undefined;
  }

  finishPut(hash: string, body: Uint8Array): void {
    const upload = this.uploads.get(hash);
    if (upload === undefined) throw new Error('the model finishes a PUT it did not accept');
    upload.object = body.length > MODEL_SETTINGS.nodeBytesMax ? 'too-large' : body;
  }

  targetOf(hash: string): RefTarget {
    const node = this.nodes.get(hash);
    if (node === undefined) return 'absent';
    return node.state === 'ready' ? 'ready' : 'not-ready';
  }

  /** Occurrences of `hash` in the refs of all rows, whatever their state. */
  childRefCount(hash: string): number {
    let count = 0;
    for (const parent of this.nodes.keys()) {
      count += getPoolNode(parent).refs.filter((ref) => ref === hash).length;
    }
    return count;
  }

  usage(now: number): Record<string, number> {
    const rows = [...this.nodes.values()].map((row) => ({ row, node: getPoolNode(row.hash) }));
    const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
    const ready = rows.filter(({ row }) => row.state === 'ready');
    const waiting = rows.filter(({ row }) => row.state === 'waiting');
    return {
      nodeCount: rows.length,
      readyContentBytes: sum(ready.map(({ node }) => node.content.length)),
      readyStoredBytes: sum(ready.map(({ row }) => row.storedBytes)),
      reservedBytes: sum([...waiting.map(({ node }) => node.bytes.length), ...this.receiving.values()]),
      notReadyNodeCount: rows.length - ready.length,
      leasedNodeCount: rows.filter(({ row }) => row.leaseExpiresAt > now).length,
    };
  }

  isEligible(now: number, node: ModelNode): boolean {
    if (node.state === 'claimed') return true;
    if (node.state === 'waiting') return false;
    const isHeld = this.rootRefs.isHeld(node.hash) || this.rootRefs.aggregate(node.hash) !== 0;
    return this.childRefCount(node.hash) === 0 && !isHeld && node.leaseExpiresAt <= now;
  }

  /**
   * Takes away the rows a pass deleted, parents before the children they free. Returns what is left over: rows that no
   * order of deletions could have made eligible.
   */
  collect(now: number, gone: ReadonlySet<string>): readonly string[] {
    const rest = new Set(gone);
    let progress = true;
    while (progress) {
      progress = false;
      for (const hash of rest) {
        const node = this.nodes.get(hash);
        if (node === undefined || !this.isEligible(now, node)) continue;
        this.nodes.delete(hash);
        rest.delete(hash);
        progress = true;
      }
    }
    return [...rest];
  }

  /** What 24 h without a lease call removes. Claimed rows are finished too. */
  sweep(now: number): {
    readonly nodes: readonly string[];
    readonly uploads: number;
    readonly packs: number;
  } {
    const cutoff = now - MODEL_SETTINGS.abandonedAfterMs;
    const dropped: string[] = [];
    const uploadsBefore = this.uploads.size;
    for (const node of [...this.nodes.values()]) {
      if (!isDropped(node, cutoff) && node.state !== 'claimed') continue;
      this.nodes.delete(node.hash);
      dropped.push(node.state);
    }
    for (const [hash, upload] of [...this.uploads]) {
      if (Math.max(upload.touchedAt, upload.urlExpiresAt) <= cutoff) this.uploads.delete(hash);
    }
    return { nodes: dropped, uploads: uploadsBefore - this.uploads.size, packs: this.packs.sweep(now) };
  }

  findEligible(now: number): readonly string[] {
    return [...this.nodes.values()].filter((node) => this.isEligible(now, node)).map(({ hash }) => hash);
  }

  /** True when the next sweep would drop something. */
  hasAbandoned(now: number): boolean {
    const cutoff = now - MODEL_SETTINGS.abandonedAfterMs;
    const isOld = (upload: ModelUpload): boolean => Math.max(upload.touchedAt, upload.urlExpiresAt) <= cutoff;
    if (this.packs.hasAbandoned(now)) return true;
    const rows = [...this.nodes.values()];
    return rows.some((node) => isDropped(node, cutoff)) || [...this.uploads.values()].some(isOld);
  }

  /** A scrub reads every ready and rotten row's bytes. */
  scrub(): void {
    for (const node of this.nodes.values()) {
      if (node.state !== 'ready' && node.state !== 'rotten') continue;
      node.state = node.bytes === 'good' ? 'ready' : 'rotten';
    }
  }
}

function isDropped(node: ModelNode, cutoff: number): boolean {
  return node.state === 'waiting' && node.touchedAt <= cutoff;
}

function renew(now: number, node: ModelNode, durationMs: number): ExpectedLease {
  if (node.leaseExpiresAt <= now) node.leaseStartedAt = now;
  node.leaseExpiresAt = Math.max(node.leaseExpiresAt, now + durationMs);
  return { state: 'ready', leaseStartedAt: node.leaseStartedAt, leaseExpiresAt: node.leaseExpiresAt };
}

function awaiting(upload: ModelUpload, expiresAt: readonly number[]): ExpectedLease {
  const state = upload.rejection === undefined ? 'awaiting_upload' : 'awaiting_replacement_upload';
  return { state, rejection: upload.rejection, upload, expiresAt };
}
