/** The second walk of a recount: describes and repairs the hashes whose counts disagree. */
import type { Hash } from '@holdfast/protocol';
import type { CountRepairs } from '../core/collect/repair-counts.ts';
import type { Fault } from './fault.ts';
import type { CountTaker, KeptCounts } from './walk-counts.ts';

interface Balances {
  sum: number;
  domains: number;
}

export class CountDetails implements CountTaker {
  readonly #rows = new Map<Hash, KeptCounts>();
  readonly #loose = new Map<Hash, number>();
  readonly #edges = new Map<Hash, number>();
  /** hashes that ready parents refer to: they must have rows */
  readonly #neededBy = new Map<Hash, Hash>();
  readonly #balances = new Map<Hash, Balances>();

  settle(): void {}

  addRow(hash: Hash, { childRefCount, rootRefCount, heldDomainCount }: KeptCounts): void {
    this.#rows.set(hash, { childRefCount, rootRefCount, heldDomainCount });
  }

  addEdge(hash: Hash, parent: Hash, isParentReady: boolean): void {
    this.#edges.set(hash, (this.#edges.get(hash) ?? 0) + 1);
    if (isParentReady) this.#neededBy.set(hash, parent);
  }

  addLoose(hash: Hash, count: number): void {
    this.#loose.set(hash, count);
  }

  addBalance(hash: Hash, balance: number): void {
    const { sum, domains } = this.#balances.get(hash) ?? { sum: 0, domains: 0 };
    this.#balances.set(hash, { sum: sum + balance, domains: domains + 1 });
  }

  compare(): Omit<CountRepairs, 'counters'> & { readonly faults: readonly Fault[] } {
    const faults: Fault[] = [];
    const nodes: CountRepairs['nodes'][number][] = [];
    const looseEdges: CountRepairs['looseEdges'][number][] = [];
    for (const [hash, kept] of this.#rows) {
      const { sum, domains } = this.#balances.get(hash) ?? { sum: 0, domains: 0 };
      const counted = {
        childRefCount: this.#edges.get(hash) ?? 0,
        rootRefCount: sum,
        heldDomainCount: domains,
      };
      const found = compareCounts(hash, kept, counted);
      faults.push(...found);
      if (found.length > 0) nodes.push({ hash, kept, counted });
    }
    for (const hash of new Set([...this.#loose.keys(), ...this.#edges.keys()])) {
      const kept = this.#loose.get(hash) ?? 0;
      const counted = this.#rows.has(hash) ? 0 : (this.#edges.get(hash) ?? 0);
      if (kept === counted) continue;
      faults.push({
        kind: 'edges',
        hash,
        message: `${counted} parents refer to this hash, which has no row; the kept count is ${kept}`,
      });
      looseEdges.push({ hash, kept, counted });
    }
    for (const [hash, parent] of this.#neededBy) {
      if (this.#rows.has(hash)) continue;
      const message = `the row of this node is gone, and its parent ${parent} is ready: push it again, or restore a backup`;
      faults.push({ kind: 'missing-child', hash, message });
    }
    for (const hash of this.#balances.keys()) {
      if (this.#rows.has(hash)) continue;
      const message = 'a root ref holds this node, and its row is gone: push it again, or restore a backup';
      faults.push({ kind: 'root-refs', hash, message });
    }
    return { faults, nodes, looseEdges };
  }
}

function compareCounts(hash: Hash, kept: KeptCounts, counted: KeptCounts): Fault[] {
  const faults: Fault[] = [];
  if (kept.childRefCount !== counted.childRefCount) {
    const message = `its parents refer to it ${counted.childRefCount} times; the kept count is ${kept.childRefCount}`;
    faults.push({ kind: 'edges', hash, message });
  }
  if (kept.rootRefCount !== counted.rootRefCount || kept.heldDomainCount !== counted.heldDomainCount) {
    const message = `its balances are ${counted.rootRefCount} in ${counted.heldDomainCount} domains; the kept counts are ${kept.rootRefCount} in ${kept.heldDomainCount}`;
    faults.push({ kind: 'root-refs', hash, message });
  }
  return faults;
}
