/** Root Refs of one Space as docs/api.md tells them; every revision is kept whole. */

export type Changes = Readonly<Record<string, number>>;

export type ExpectedError = { readonly error: string; readonly mentions?: string };
export type ExpectedCommit = {
  readonly success: true;
  readonly idempotent: boolean;
  readonly revision: number;
};

export interface ExpectedPage {
  readonly refDomain: string;
  readonly revision: number;
  readonly items: readonly { readonly hash: string; readonly refCount: number }[];
  readonly hasMore: boolean;
}

interface Domain {
  /** index = revision */
  readonly snapshots: ReadonlyMap<string, number>[];
  readonly records: Map<string, { readonly payload: string; readonly revision: number; readonly at: number }>;
}

export type RefTarget = 'absent' | 'ready' | 'not-ready';

export class ReferenceRootRefs {
  readonly #domains = new Map<string, Domain>();

  /** Applies the commit, or says which error it must meet. */
  commit(
    domainName: string,
    requestId: string,
    changes: Changes,
    now: number,
    targetOf: (hash: string) => RefTarget,
  ): ExpectedCommit | ExpectedError {
    const domain = this.#domain(domainName);
    const hashes = Object.keys(changes).sort();
    const payload = JSON.stringify(hashes.map((hash) => [hash, changes[hash]]));
    const record = domain.records.get(requestId);
    if (record !== undefined) {
      if (record.payload !== payload) return { error: 'IDEMPOTENCY_CONFLICT' };
      return { success: true, idempotent: true, revision: record.revision };
    }
    const absent = hashes.find((hash) => targetOf(hash) === 'absent');
    if (absent !== undefined) return { error: 'NOT_FOUND' };
    for (const hash of hashes) {
      const delta = changes[hash] as number;
      const isUnready = delta > 0 && targetOf(hash) !== 'ready';
      if (isUnready || this.aggregate(hash) + delta < 0) return { error: 'CONFLICT', mentions: hash };
    }
    const next = new Map(domain.snapshots.at(-1));
    for (const hash of hashes) {
      const balance = (next.get(hash) ?? 0) + (changes[hash] as number);
      if (balance === 0) next.delete(hash);
      else next.set(hash, balance);
    }
    const revision = domain.snapshots.push(next) - 1;
    domain.records.set(requestId, { payload, revision, at: now });
    return { success: true, idempotent: false, revision };
  }

  /** The engine has no record of this commit any more. Returns whether the commit is one that may be forgotten. */
  forget(domainName: string, requestId: string, committedBy: number): boolean {
    const { records, snapshots } = this.#domain(domainName);
    const record = records.get(requestId);
    if (record === undefined) return false;
    records.delete(requestId);
    return record.at <= committedBy && record.revision < snapshots.length - 1;
  }

  knows(domainName: string, requestId: string): boolean {
    return this.#domain(domainName).records.has(requestId);
  }

  /** The page after `after` of the balances at `revision`. */
  page(domainName: string, revision: number, after: string, limit: number): ExpectedPage {
    const snapshot = this.#domain(domainName).snapshots[revision];
    if (snapshot === undefined) throw new Error(`the model has no revision ${revision}`);
    const rest = [...snapshot]
      .filter(([hash]) => hash > after)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([hash, refCount]) => ({ hash, refCount }));
    return { refDomain: domainName, revision, items: rest.slice(0, limit), hasMore: rest.length > limit };
  }

  revision(domainName: string): number {
    return this.#domain(domainName).snapshots.length - 1;
  }

  /** `rootRefCount` of a node: its balance over all domains. */
  aggregate(hash: string): number {
    let sum = 0;
    for (const { snapshots } of this.#domains.values()) sum += snapshots.at(-1)?.get(hash) ?? 0;
    return sum;
  }

  isHeld(hash: string): boolean {
    return [...this.#domains.values()].some(({ snapshots }) => snapshots.at(-1)?.has(hash) === true);
  }

  #domain(name: string): Domain {
    const known = this.#domains.get(name);
    if (known !== undefined) return known;
    const fresh: Domain = { snapshots: [new Map()], records: new Map() };
    this.#domains.set(name, fresh);
    return fresh;
  }
}
