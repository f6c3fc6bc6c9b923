/** Recounts one Space from its rows at one instant and compares the result with the stored counts. */
import { type Hash, HashTable } from '@holdfast/protocol';
import { pagesOf } from '../core/batches.ts';
import type { CountRepairs } from '../core/collect/repair-counts.ts';
import type { KeptCounters, SpaceSnapshot } from '../core/inspection-ports.ts';
import { addUsage } from '../core/usage-delta.ts';
import type { Fault } from './check-contents.ts';
import { CountParts } from './count-parts.ts';
import { type CountTaker, type CountWalk, type KeptCounts, walkCounts } from './walk-counts.ts';

interface Balances {
  sum: number;
  domains: number;
}

/** The second walk of a recount: describes and repairs the hashes whose counts disagree. */
class CountDetails implements CountTaker {
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

/** Facts about a hash. `needed`: a ready parent or a balance refers to it, so it must have a row. */
const FACT = { row: 1, loose: 2, needed: 4 } as const;

/** The first walk of a recount: for each hash the sum of differences. Only if there is one, a second walk describes the fault. */
class CountScreen implements CountTaker {
  readonly #places = new HashTable('numbers');
  /** by place: counted minus stored */
  #edges = new Float64Array(1024);
  #rootRefs = new Float64Array(1024);
  #domains = new Int32Array(1024);
  #facts = new Uint8Array(1024);

  settle(): void {}

  addRow(hash: Hash, { childRefCount, rootRefCount, heldDomainCount }: KeptCounts): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.row);
    this.#count(this.#edges, place, -childRefCount);
    this.#count(this.#rootRefs, place, -rootRefCount);
    this.#count(this.#domains, place, -heldDomainCount);
  }

  addEdge(hash: Hash, _parent: Hash, isParentReady: boolean): void {
    const place = this.#placeOf(hash);
    this.#count(this.#edges, place, 1);
    if (isParentReady) this.#note(place, FACT.needed);
  }

  addLoose(hash: Hash, count: number): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.loose);
    this.#count(this.#edges, place, -count);
  }

  addBalance(hash: Hash, balance: number): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.needed);
    this.#count(this.#rootRefs, place, balance);
    this.#count(this.#domains, place, 1);
  }

  isOff(hash: Hash): boolean {
    const place = this.#places.find(hash);
    return place !== undefined && this.#isPlaceOff(place);
  }

  isAnyOff(): boolean {
    for (let place = 0; place < this.#places.size; place += 1) if (this.#isPlaceOff(place)) return true;
    return false;
  }

  #isPlaceOff(place: number): boolean {
    const facts = this.#facts[place] as number;
    const hasRow = (facts & FACT.row) !== 0;
    const isOutOfPlace = hasRow ? (facts & FACT.loose) !== 0 : (facts & FACT.needed) !== 0;
    return (
      isOutOfPlace || this.#edges[place] !== 0 || this.#rootRefs[place] !== 0 || this.#domains[place] !== 0
    );
  }

  #placeOf(hash: Hash): number {
    const known = this.#places.find(hash);
    if (known !== undefined) return known;
    const place = this.#places.size;
    this.#places.set(hash, place);
    if (place === this.#facts.length) this.#grow();
    return place;
  }

  #note(place: number, fact: number): void {
    this.#facts[place] = (this.#facts[place] as number) | fact;
  }

  #count(counts: Float64Array | Int32Array, place: number, by: number): void {
    counts[place] = (counts[place] as number) + by;
  }

  #grow(): void {
    const places = 2 * this.#facts.length;
    this.#edges = grown(this.#edges, new Float64Array(places));
    this.#rootRefs = grown(this.#rootRefs, new Float64Array(places));
    this.#domains = grown(this.#domains, new Int32Array(places));
    this.#facts = grown(this.#facts, new Uint8Array(places));
  }
}

function grown<T extends { set(from: T): void }>(from: T, into: T): T {
  into.set(from);
  return into;
}

export interface Recount {
  readonly nodes: number;
  readonly faults: readonly Fault[];
  readonly repairs: CountRepairs;
  /** why a row of a node cannot be read: no other fault is sure, and the repairs only raise counts */
  readonly unreadable?: string;
}

/** hex digits of a hash; those before them name its part */
const TURN_DIGITS = [2, 8] as const;

export interface RecountOptions {
  /** called with the rows that a walk has read, and their total */
  readonly onCounted?: ((rows: number, of: number) => void) | undefined;
  /** overrides the usual bound, for tests */
  readonly hashesAtOnceMax?: number;
}

interface Counted {
  readonly counters: KeptCounters;
  readonly faults: readonly Fault[];
  readonly nodes: CountRepairs['nodes'];
  readonly looseEdges: CountRepairs['looseEdges'];
  readonly unreadable: string | undefined;
}

export async function recountSpace(snapshot: SpaceSnapshot, options: RecountOptions = {}): Promise<Recount> {
  // A hash takes less than 100 bytes of memory.
  const { onCounted, hashesAtOnceMax = 1_000_000 } = options;
  const kept = await snapshot.readKeptCounters();
  const onRows = (rows: number): void => onCounted?.(rows, kept.nodeCount);
  const found = await countAll(snapshot, { hashesMax: hashesAtOnceMax, onRows });
  const { counters: counted, nodes, looseEdges, unreadable } = found;
  if (unreadable !== undefined) {
    const repairs = onlyRising({ nodes, looseEdges: [], counters: undefined });
    return { nodes: counted.nodeCount, faults: [], repairs, unreadable };
  }
  const history = await findHistoryFaults(snapshot);
  const faults = [...found.faults, ...history, ...(await findPackFaults(snapshot))];
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
  const repairs = { nodes, looseEdges, counters };
  // A balance that its history contradicts may be an older one: it proves no lower count.
  return { nodes: counted.nodeCount, faults, repairs: history.length > 0 ? onlyRising(repairs) : repairs };
}

/** Damaged rows may still hold references, so counts are only raised. */
export function onlyRising(repairs: CountRepairs): CountRepairs {
  const nodes = repairs.nodes.flatMap(({ hash, kept, counted }) => {
    const risen = {
      childRefCount: Math.max(kept.childRefCount, counted.childRefCount),
      rootRefCount: Math.max(kept.rootRefCount, counted.rootRefCount),
      heldDomainCount: Math.max(kept.heldDomainCount, counted.heldDomainCount),
    };
    const isRise = Object.entries(risen).some(([name, count]) => count > kept[name as keyof typeof kept]);
    return isRise ? [{ hash, kept, counted: risen }] : [];
  });
  const looseEdges = repairs.looseEdges.filter(({ kept, counted }) => counted > kept);
  return { ...repairs, nodes, looseEdges };
}

async function countAll(
  snapshot: SpaceSnapshot,
  { hashesMax, onRows }: Pick<CountWalk, 'onRows'> & { readonly hashesMax: number },
): Promise<Counted> {
  const parts = new CountParts();
  try {
    const walked = await walkCounts(snapshot, { taker: parts, isMine: () => true, onRows });
    const off = await findOff(parts, hashesMax);
    if (off.size === 0) return { ...walked, faults: [], nodes: [], looseEdges: [] };
    const details = new CountDetails();
    await walkCounts(snapshot, { taker: details, isMine: (hash) => off.has(hash), onRows });
    return { ...walked, ...details.compare() };
  } finally {
    await parts.close();
  }
}

/** The hashes about which something disagrees. A part with many entries is screened in several passes. */
async function findOff(parts: CountParts, hashesMax: number): Promise<ReadonlySet<Hash>> {
  const off = new Set<Hash>();
  for (const [part, entries] of parts.sizes.entries()) {
    const turns = Math.ceil(entries / hashesMax);
    for (let turn = 0; turn < turns; turn += 1) {
      const isMine = (hash: Hash): boolean => parseInt(hash.slice(...TURN_DIGITS), 16) % turns === turn;
      const screen = new CountScreen();
      await parts.tell(part, screen, isMine);
      if (!screen.isAnyOff()) continue;
      const note = (hash: Hash): void => void (screen.isOff(hash) && off.add(hash));
      await parts.tell(
        part,
        { addRow: note, addEdge: note, addLoose: note, addBalance: note, settle() {} },
        isMine,
      );
    }
  }
  return off;
}

const subtract = (counted: KeptCounters, kept: KeptCounters): KeptCounters => ({
  ...addUsage(counted, kept, -1),
  leasedCount: counted.leasedCount - kept.leasedCount,
});

/** Above the floor of the history each revision has its commit, and a balance begins no earlier than its history ends. */
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
    for await (const page of pagesOf(
      (after, limit) => snapshot.readBalances(domain, after, limit),
      ({ hash }) => hash,
    )) {
      for (const { hash, fromRevision, historyEnd } of page) {
        if (fromRevision >= 1 && fromRevision <= revision && historyEnd <= fromRevision) continue;
        const message = `its balance in the domain ${JSON.stringify(domain)} begins at revision ${fromRevision} of ${revision}, its history ends at ${historyEnd}: restore a backup of the rows`;
        faults.push({ kind: 'history', hash, message });
      }
    }
  }
  return faults;
}

/** A pack without a live record is discarded. A pack whose live count is too low would be lost. */
async function findPackFaults(snapshot: SpaceSnapshot): Promise<readonly Fault[]> {
  const faults: Fault[] = [];
  for await (const page of pagesOf(
    (after, limit) => snapshot.readPacks(after, limit),
    ({ id }) => id,
  )) {
    for (const { generation, kept, counted } of page) {
      if (kept.liveRecords === counted.liveRecords && kept.liveBytes === counted.liveBytes) continue;
      faults.push({
        kind: 'usage',
        hash: undefined,
        message: `the use of pack ${generation} is ${kept.liveRecords} records of ${kept.liveBytes} bytes, the rows say ${counted.liveRecords} of ${counted.liveBytes}: restore a backup of the rows`,
      });
    }
  }
  return faults;
}
