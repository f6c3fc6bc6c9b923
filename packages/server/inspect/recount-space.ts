/**
 * Recounts one Space from its rows at one instant: edges, root refs, usage and the history of root refs, and compares what is kept
 * with what is there.
 */
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters, SpaceSnapshot } from '../core/inspection-ports.ts';
import { pagesOf } from '../core/pages-of.ts';
import type { CountRepairs } from '../core/repair-counts.ts';
import { CountDetails } from './count-details.ts';
import { CountScreen } from './count-screen.ts';
import type { Fault } from './fault.ts';
import { type CountWalk, walkCounts } from './walk-counts.ts';

export interface Recount {
  readonly nodes: number;
  readonly faults: readonly Fault[];
  readonly repairs: CountRepairs;
}

/** Hashes of one walk, in less than 100 bytes each; a Space that has more is walked several times. */
const HASHES_PER_WALK_MAX = 1_000_000;
/** Walks that a first try may take, whatever the kept count says. */
const FIRST_PARTS_MAX = 64;
/** So many times as many walks, where one has met too many hashes. */
const PARTS_MORE = 4;
const PREFIX_DIGITS = 4;

export interface RecountOptions {
  /** is told how many rows a walk has seen, and how many there are */
  readonly onCounted?: ((rows: number, of: number) => void) | undefined;
  /** instead of the usual bound, for tests */
  readonly hashesPerWalkMax?: number;
}

interface Counted {
  readonly counters: KeptCounters;
  readonly faults: readonly Fault[];
  readonly nodes: CountRepairs['nodes'];
  readonly looseEdges: CountRepairs['looseEdges'];
}

export async function recountSpace(snapshot: SpaceSnapshot, options: RecountOptions = {}): Promise<Recount> {
  const { onCounted, hashesPerWalkMax = HASHES_PER_WALK_MAX } = options;
  const kept = await snapshot.readKeptCounters();
  const onRows = (rows: number): void => onCounted?.(rows, kept.nodeCount);
  // One wrong bit of the kept count must not make a walk of each node.
  let parts = Math.min(FIRST_PARTS_MAX, Math.max(1, Math.ceil(kept.nodeCount / hashesPerWalkMax)));
  let found: Counted | undefined;
  // Waiting parents may name far more hashes than there are rows.
  for (; found === undefined; parts *= PARTS_MORE)
    found = await countInParts(snapshot, { parts, hashesPerWalkMax, onRows });
  const { counters: counted, nodes, looseEdges } = found;
  const faults = [
    ...found.faults,
    ...(await findHistoryFaults(snapshot)),
    ...(await findPackFaults(snapshot)),
  ];
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

/** Undefined: a part has more hashes than a walk may hold. */
async function countInParts(
  snapshot: SpaceSnapshot,
  {
    parts,
    hashesPerWalkMax,
    onRows,
  }: Pick<CountWalk, 'onRows'> & { readonly parts: number; readonly hashesPerWalkMax: number },
): Promise<Counted | undefined> {
  const found: ReturnType<CountDetails['compare']>[] = [];
  let counters: KeptCounters | undefined;
  for (let part = 0; part < parts; part += 1) {
    const isMine = (hash: Hash): boolean => parseInt(hash.slice(0, PREFIX_DIGITS), 16) % parts === part;
    const screen = new CountScreen(hashesPerWalkMax);
    counters = await walkCounts(snapshot, { taker: screen, isMine, onRows });
    if (counters === undefined) return undefined;
    if (!screen.isAnyOff()) continue;
    const details = new CountDetails();
    await walkCounts(snapshot, {
      taker: details,
      isMine: (hash) => isMine(hash) && screen.isOff(hash),
      onRows,
    });
    found.push(details.compare());
  }
  return (
    counters && {
      counters,
      faults: found.flatMap(({ faults }) => faults),
      nodes: found.flatMap(({ nodes }) => nodes),
      looseEdges: found.flatMap(({ looseEdges }) => looseEdges),
    }
  );
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

/** A pack without a live record is discarded: one with fewer than it has would be lost. */
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
