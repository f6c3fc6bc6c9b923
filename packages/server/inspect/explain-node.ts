/** Explains what keeps a node and until when: its lease, its root refs, or its ancestors. */
import { type Hash, refsToHashes } from '@holdfast/protocol';
import { pagesOf } from '../core/batches.ts';
import type { Core } from '../core/core.ts';
import type { SpaceSnapshot } from '../core/inspection-ports.ts';
import type { NodeRow, NodeRowState, Space } from '../core/model.ts';

interface Keeper {
  readonly kind: 'lease' | 'root-ref' | 'parent';
  /** ms; the end of the lease */
  readonly until?: number;
  readonly refDomain?: string;
  readonly balance?: number;
  /** of the parent */
  readonly hash?: Hash;
}

export interface Explanation {
  readonly hash: Hash;
  readonly state: NodeRowState;
  readonly keptBy: readonly Keeper[];
  /** ms; the last lease end among the node and its ancestors; null if a root ref keeps it */
  readonly collectableAt: number | null;
  /** from the node up to the nearest ancestor with a root ref, or else with a lease; empty if nothing keeps it */
  readonly chain: readonly { readonly hash: Hash; readonly keptBy: readonly Keeper[] }[];
}

/** Resolves with undefined if the Space has no such node. Each level of ancestors walks all rows of the Space. */
export function explainNode(core: Core, space: Space, hash: Hash): Promise<Explanation | undefined> {
  const { abandonedAfterMs } = core.settings;
  return core.metadata.inspect(space, async (snapshot) => {
    const row = await snapshot.findNode(hash);
    return row === undefined ? undefined : new Explaining(snapshot, abandonedAfterMs).explain(row);
  });
}

class Explaining {
  readonly #snapshot: SpaceSnapshot;
  readonly #abandonedAfterMs: number;
  /** each visited node → the child through which it was reached */
  readonly #below = new Map<Hash, Hash | undefined>();

  constructor(snapshot: SpaceSnapshot, abandonedAfterMs: number) {
    this.#snapshot = snapshot;
    this.#abandonedAfterMs = abandonedAfterMs;
  }

  async explain(row: NodeRow): Promise<Explanation> {
    this.#below.set(row.hash, undefined);
    let level: readonly NodeRow[] = [row];
    let leased: NodeRow | undefined;
    let held: NodeRow | undefined;
    let directParents: readonly Hash[] = [];
    let endsAt = 0;
    while (level.length > 0) {
      for (const each of level) {
        if (isHeld(each)) held ??= each;
        if (Math.max(each.leaseExpiresAt, this.#abandonedAt(each)) > this.#snapshot.now) leased ??= each;
        endsAt = Math.max(endsAt, each.leaseExpiresAt, this.#abandonedAt(each));
      }
      const isFirst = this.#below.size === 1;
      // A root ref keeps it regardless of further ancestors.
      if (!isFirst && held !== undefined) break;
      const parents = await this.#findParents(level);
      if (isFirst) directParents = parents.all;
      level = parents.found;
    }
    return {
      hash: row.hash,
      state: row.state,
      keptBy: [
        ...(await this.#keepersOf(row)),
        ...directParents.slice(0, 1_000).map((hash) => ({ kind: 'parent' as const, hash })),
      ],
      collectableAt: held === undefined ? endsAt : null,
      chain: await this.#chainTo(held ?? leased),
    };
  }

  /** A waiting parent keeps its children until the sweep deletes it. */
  #abandonedAt(row: NodeRow): number {
    return row.state === 'waiting' ? row.waitingTouchedAt + this.#abandonedAfterMs : 0;
  }

  async #keepersOf(row: NodeRow): Promise<Keeper[]> {
    const until = Math.max(row.leaseExpiresAt, this.#abandonedAt(row));
    const keepers: Keeper[] = until > this.#snapshot.now ? [{ kind: 'lease', until }] : [];
    if (!isHeld(row)) return keepers;
    for (const { domain, balance } of await this.#snapshot.findBalancesOf(row.hash)) {
      keepers.push({ kind: 'root-ref', refDomain: domain, balance });
    }
    return keepers;
  }

  /** One walk over all rows of the Space. `found`: parents not visited before. */
  async #findParents(
    level: readonly NodeRow[],
  ): Promise<{ readonly all: readonly Hash[]; readonly found: readonly NodeRow[] }> {
    const wanted = new Set(level.filter(({ childRefCount }) => childRefCount > 0).map(({ hash }) => hash));
    const all: Hash[] = [];
    const found: NodeRow[] = [];
    if (wanted.size === 0) return { all, found };
    for await (const page of pagesOf(
      (after, limit) => this.#snapshot.readNodes(after, limit),
      ({ row }) => row.hash,
    )) {
      for (const { row } of page) {
        const child =
          row.refs.length === 0 ? undefined : refsToHashes(row.refs).find((each) => wanted.has(each));
        if (child === undefined) continue;
        all.push(row.hash);
        if (this.#below.has(row.hash)) continue;
        this.#below.set(row.hash, child);
        found.push(row);
      }
    }
    return { all, found };
  }

  async #chainTo(nearest: NodeRow | undefined): Promise<Explanation['chain']> {
    if (nearest === undefined) return [];
    const hashes: Hash[] = [];
    for (let hash: Hash | undefined = nearest.hash; hash !== undefined; hash = this.#below.get(hash)) {
      hashes.push(hash);
    }
    const keptBy = await this.#keepersOf(nearest);
    return hashes.toReversed().map((hash, index, all) => {
      const parent = all[index + 1];
      return { hash, keptBy: parent === undefined ? keptBy : [{ kind: 'parent', hash: parent }] };
    });
  }
}

/** Balances of several domains may sum to zero and still hold the node. */
function isHeld({ heldDomainCount, rootRefCount }: NodeRow): boolean {
  return heldDomainCount !== 0 || rootRefCount !== 0;
}
