/**
 * Recounts one Space from its rows at one instant: edges, root refs, usage and the history of root refs, and compares what is kept
 * with what is there.
 */
import { type Hash, refsToHashes } from '@holdfast/protocol';
import type { InspectedNode, KeptCounters, SpaceSnapshot } from '../core/inspection-ports.ts';
import type { CountRepairs } from '../core/repair-counts.ts';
import { addUsage, USAGE_NONE, type UsageDelta, usageOf } from '../core/usage-delta.ts';

/** Something wrong, before it is known whether it could be repaired. */
export interface Fault {
  readonly kind: FindingKind;
  /** undefined: it is about the whole Space */
  readonly hash: Hash | undefined;
  readonly message: string;
}

export const FINDING_KINDS = [
  'edges',
  'missing-child',
  'root-refs',
  'history',
  'usage',
  'content-record',
  'lost',
  'damaged',
  'row',
  'rotten',
  'unreadable',
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

export interface Recount {
  readonly nodes: number;
  readonly faults: readonly Fault[];
  readonly repairs: CountRepairs;
}

const PAGE_ROWS = 500;
/** Hashes whose edges are counted in one walk; a larger Space is walked several times. */
const HASHES_PER_WALK = 1_000_000;
const PREFIX_DIGITS = 4;

interface Kept {
  readonly childRefCount: number;
  readonly rootRefCount: number;
  readonly heldDomainCount: number;
}

interface Balances {
  sum: number;
  domains: number;
}

export async function recountSpace(snapshot: SpaceSnapshot): Promise<Recount> {
  const kept = await snapshot.readKeptCounters();
  const parts = Math.max(1, Math.ceil(kept.nodeCount / HASHES_PER_WALK));
  const faults: Fault[] = [];
  const nodes: CountRepairs['nodes'][number][] = [];
  const looseEdges: CountRepairs['looseEdges'][number][] = [];
  let counted: KeptCounters = { ...USAGE_NONE, leasedCount: 0 };
  for (let part = 0; part < parts; part += 1) {
    const walk = new PartWalk(
      snapshot,
      (hash) => parseInt(hash.slice(0, PREFIX_DIGITS), 16) % parts === part,
    );
    counted = await walk.run();
    const found = walk.compare();
    faults.push(...found.faults);
    nodes.push(...found.nodes);
    looseEdges.push(...found.looseEdges);
  }
  faults.push(...(await findHistoryFaults(snapshot)), ...(await findPackFaults(snapshot)));
  const off = subtract(counted, kept);
  const wrong = Object.entries(off).filter(([, by]) => by !== 0);
  for (const [name] of wrong) {
    const key = name as keyof KeptCounters;
    faults.push({
      kind: 'usage',
      hash: undefined,
      message: `the counter ${name} is ${kept[key]}, the rows say ${counted[key]}`,
    });
  }
  const counters = wrong.length === 0 ? undefined : off;
  return { nodes: counted.nodeCount, faults, repairs: { nodes, looseEdges, counters } };
}

function subtract(counted: KeptCounters, kept: KeptCounters): KeptCounters {
  return {
    nodeCount: counted.nodeCount - kept.nodeCount,
    readyContentBytes: counted.readyContentBytes - kept.readyContentBytes,
    readyStoredBytes: counted.readyStoredBytes - kept.readyStoredBytes,
    waitingBytes: counted.waitingBytes - kept.waitingBytes,
    notReadyNodeCount: counted.notReadyNodeCount - kept.notReadyNodeCount,
    leasedCount: counted.leasedCount - kept.leasedCount,
  };
}

/** One walk over all rows, which counts for the hashes of one part. */
class PartWalk {
  readonly #snapshot: SpaceSnapshot;
  readonly #isMine: (hash: Hash) => boolean;
  readonly #rows = new Map<Hash, Kept>();
  readonly #loose = new Map<Hash, number>();
  readonly #edges = new Map<Hash, number>();
  /** of ready parents: they must have rows */
  readonly #neededBy = new Map<Hash, Hash>();
  readonly #balances = new Map<Hash, Balances>();
  #usage: UsageDelta = USAGE_NONE;
  #leasedCount = 0;

  constructor(snapshot: SpaceSnapshot, isMine: (hash: Hash) => boolean) {
    this.#snapshot = snapshot;
    this.#isMine = isMine;
  }

  async run(): Promise<KeptCounters> {
    await eachPage(
      (after) => this.#snapshot.readNodes(after, PAGE_ROWS),
      ({ row }) => row.hash,
      (node) => this.#take(node),
    );
    await eachPage(
      (after) => this.#snapshot.readLooseEdges(after, PAGE_ROWS),
      ({ hash }) => hash,
      ({ hash, count }) => {
        if (this.#isMine(hash)) this.#loose.set(hash, count);
      },
    );
    for (const { domain } of await this.#snapshot.readDomains()) {
      await eachPage(
        (after) => this.#snapshot.readBalances(domain, after, PAGE_ROWS),
        ({ hash }) => hash,
        ({ hash, balance }) => {
          if (!this.#isMine(hash)) return;
          const { sum, domains } = this.#balances.get(hash) ?? { sum: 0, domains: 0 };
          this.#balances.set(hash, { sum: sum + balance, domains: domains + 1 });
        },
      );
    }
    return { ...this.#usage, leasedCount: this.#leasedCount };
  }

  #take({ row, isLeaseCounted }: InspectedNode): void {
    this.#usage = addUsage(this.#usage, usageOf(row));
    this.#leasedCount += Number(isLeaseCounted);
    if (this.#isMine(row.hash)) {
      const { childRefCount, rootRefCount, heldDomainCount } = row;
      this.#rows.set(row.hash, { childRefCount, rootRefCount, heldDomainCount });
    }
    if (row.refs.length === 0) return;
    for (const child of refsToHashes(row.refs)) {
      if (!this.#isMine(child)) continue;
      this.#edges.set(child, (this.#edges.get(child) ?? 0) + 1);
      if (row.state === 'ready') this.#neededBy.set(child, row.hash);
    }
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

function compareCounts(hash: Hash, kept: Kept, counted: Kept): Fault[] {
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

/** After the floor of the history each revision has its commit, and a balance begins where its history ends, or later. */
async function findHistoryFaults(snapshot: SpaceSnapshot): Promise<readonly Fault[]> {
  const faults: Fault[] = [];
  for (const { domain, revision, historyFloor, commits, lastRevision } of await snapshot.readDomains()) {
    const isEndRight = revision > historyFloor ? lastRevision === revision : lastRevision <= revision;
    if (commits !== revision - historyFloor || !isEndRight) {
      faults.push({
        kind: 'history',
        hash: undefined,
        message: `the domain ${JSON.stringify(domain)} is at revision ${revision}, and has ${commits} commits from ${historyFloor + 1} to ${lastRevision}: restore a backup of the rows`,
      });
    }
    await eachPage(
      (after) => snapshot.readBalances(domain, after, PAGE_ROWS),
      ({ hash }) => hash,
      ({ hash, fromRevision, historyEnd }) => {
        if (fromRevision >= 1 && fromRevision <= revision && historyEnd <= fromRevision) return;
        const message = `its balance in the domain ${JSON.stringify(domain)} begins at revision ${fromRevision} of ${revision}, its history ends at ${historyEnd}: restore a backup of the rows`;
        faults.push({ kind: 'history', hash, message });
      },
    );
  }
  return faults;
}

/** A pack without a live record is discarded: one with fewer than it has would be lost. */
async function findPackFaults(snapshot: SpaceSnapshot): Promise<readonly Fault[]> {
  const faults: Fault[] = [];
  await eachPage(
    (after) => snapshot.readPacks(after, PAGE_ROWS),
    ({ id }) => id,
    ({ generation, kept, counted }) => {
      if (kept.liveRecords === counted.liveRecords && kept.liveBytes === counted.liveBytes) return;
      faults.push({
        kind: 'usage',
        hash: undefined,
        message: `the use of pack ${generation} is ${kept.liveRecords} records of ${kept.liveBytes} bytes, the rows say ${counted.liveRecords} of ${counted.liveBytes}: restore a backup of the rows`,
      });
    },
  );
  return faults;
}

/** `keyOf`: the hash or id by which the pages are ordered. */
async function eachPage<T>(
  read: (after: string | undefined) => Promise<readonly T[]> | readonly T[],
  keyOf: (item: T) => string,
  take: (item: T) => void,
): Promise<void> {
  for (let after: string | undefined; ; ) {
    const page = await read(after);
    for (const item of page) take(item);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    after = keyOf(last);
  }
}
