/** Recounts one Space from its rows at one instant and compares the result with the stored counts. */
import type { Hash } from '@holdfast/protocol';
import { pagesOf } from '../core/batches.ts';
import type { CountRepairs } from '../core/collect/repair-counts.ts';
import type { KeptCounters, SpaceSnapshot } from '../core/inspection-ports.ts';
import { addUsage } from '../core/usage-delta.ts';
import { CountDetails } from './count-details.ts';
import { CountParts } from './count-parts.ts';
import { CountScreen } from './count-screen.ts';
import type { Fault } from './fault.ts';
import { type CountWalk, walkCounts } from './walk-counts.ts';

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

/** One walk, and a second one if something disagrees. */
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
