/** The pages of core/upkeep-ports.ts on SQLite. */

import type { Generation, ObjectKey, Space } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import { isSum, tombstoneSum } from '../../core/rows/row-sums.ts';
import {
  ROTTEN_COUNT_MAX,
  type RottenSpace,
  type Step,
  type SweepCutoffs,
  type UnseenUpload,
  type UnseenWalk,
} from '../../core/upkeep-ports.ts';
import { findStoreValue, noteKey } from './ledger-rows.ts';
import { type PageSources, packPages, type SqlitePages } from './packs/pack-reads.ts';
import { bytesToHex, hexToBytes } from './rows.ts';
import type { ScrubReads } from './scrub-reads.ts';
import { listSpaces } from './space-counters.ts';
import { findSpaceOf } from './space-directory.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

const KINDS = [
  'nextSpaceWaiting',
  'nextSpaceClaimed',
  'nextSpaceUploading',
  'nextSpaceDiscarding',
  'nextSpaceUnjudged',
  'nextSpaceEmptied',
  'nextSpaceForgetting',
] as const;
type Kind = (typeof KINDS)[number];

/** Finds Spaces that have something for the sweep without looking at those that have nothing. */
class SweepWalk {
  readonly #sql: ReadStatements;
  /** where each kind's round resumes, so that no Space starves another */
  readonly #after = new Map<Kind, number>();
  #firstKind = 0;

  constructor(sql: ReadStatements) {
    this.#sql = sql;
  }

  findSpaces(cutoffs: SweepCutoffs, limit: number): Space[] {
    const ids = new Set<number>();
    // Another kind goes first each time, so that a kind with much to do leaves room for the others.
    this.#firstKind = (this.#firstKind + 1) % KINDS.length;
    for (const kind of [...KINDS.slice(this.#firstKind), ...KINDS.slice(0, this.#firstKind)]) {
      this.#collect(kind, cutoffs, ids, limit);
    }
    const spaces: Space[] = [];
    for (const id of ids) {
      const space = findSpaceOf(this.#sql.findSpaceById.get(id));
      if (space !== undefined) spaces.push(space);
    }
    return spaces;
  }

  /** One round at most: from where the last call stopped, around the end, back to there. */
  #collect(kind: Kind, cutoffs: SweepCutoffs, ids: Set<number>, limit: number): void {
    const start = this.#after.get(kind) ?? 0;
    let hasWrapped = false;
    for (let seeks = 0; seeks < 1_024 && ids.size < limit; seeks++) {
      const after = this.#after.get(kind) ?? 0;
      const row = this.#sql[kind].get(after);
      // A number with a wrong high bit is not exact: the row would be met again for ever.
      if (row === null || (row.space as number) <= after) {
        this.#after.delete(kind);
        if (hasWrapped || start === 0) return;
        hasWrapped = true;
        continue;
      }
      const id = row.space as number;
      if (hasWrapped && id > start) return;
      this.#after.set(kind, id);
      if (this.#isDue(kind, id, row.oldest as number, cutoffs)) ids.add(id);
    }
  }

  #isDue(kind: Kind, id: number, oldest: number, { now, abandonedAt }: SweepCutoffs): boolean {
    switch (kind) {
      case 'nextSpaceClaimed':
      case 'nextSpaceDiscarding':
        return oldest <= now;
      case 'nextSpaceEmptied':
        return true;
      case 'nextSpaceWaiting':
      case 'nextSpaceForgetting':
        return oldest <= abandonedAt;
      case 'nextSpaceUploading':
        return oldest <= abandonedAt && this.#sql.hasAbandonedUpload.get(id, abandonedAt) !== null;
      case 'nextSpaceUnjudged':
        return oldest <= abandonedAt && this.#sql.hasAbandonedPack.get(id, abandonedAt) !== null;
    }
  }
}

export function makePages(sources: PageSources, clock: Clock, scrub: ScrubReads): SqlitePages {
  const { sql, readAtOneInstant, idOf } = sources;
  const sweepWalk = new SweepWalk(sql);
  return {
    spaces: (wanted) => readAtOneInstant(() => listSpaces(sql, wanted, clock.now())),
    spacesToSweep: ({ cutoffs, limit }) => ({
      ...{ spaces: sweepWalk.findSpaces(cutoffs, limit), failure: undefined },
    }),
    nodesToScrub: ({ after, limit }) => scrub.find(after, limit),
    rottenSpaces: ({ after, limit }) => findRottenSpaces(sql, after, limit),
    rottenNodes: ({ space, limit }) =>
      sql.listRotten.all(idOf(space), limit).map(({ hash }) => bytesToHex(hash as Uint8Array)),
    unseenUploads: (walk) => findUnseenUploads(sql, walk),
    ...packPages(sources),
    knownGenerations: (keys) => findKnownGenerations(sql, keys),
    tombstones: (generations) => findTombstones(sql, generations),
    note: (name) => findStoreValue(sql, noteKey(name)),
  };
}

/** When each was noted first, ms. */
function findTombstones(
  { findTombstone }: ReadStatements,
  generations: readonly Generation[],
): ReadonlyMap<Generation, number> {
  const found = new Map<Generation, number>();
  for (const generation of generations) {
    const row = findTombstone.get(hexToBytes(generation));
    // A damaged one proves no age: its object is kept.
    if (row !== null && isTombstoneSound(generation, row)) found.set(generation, row.noted_at as number);
  }
  return found;
}

function isTombstoneSound(generation: Generation, row: SqlRow): boolean {
  return isSum(row.row_sum, tombstoneSum(generation, row.noted_at as number, row.seen_at as number));
}

/** Finds Spaces with rotten nodes by the index of those rows, so Spaces without any cost nothing. */
function findRottenSpaces(
  sql: ReadStatements,
  after: string | undefined,
  limit: number,
): readonly RottenSpace[] {
  const found: RottenSpace[] = [];
  for (let space = Number(after ?? 0); found.length < limit; ) {
    const next = sql.nextSpaceRotten.get(space);
    if (next === null || (next.space as number) <= space) break;
    space = next.space as number;
    const nodes = (sql.countRotten.get(space, ROTTEN_COUNT_MAX)?.count as number | undefined) ?? 0;
    const names = findSpaceOf(sql.findSpaceById.get(space));
    // The statements do not share a transaction: all of them may have been healed in between.
    if (nodes > 0 && names !== undefined) found.push({ space: names, nodes, position: String(space) });
  }
  return found;
}

const UNSEEN = [
  { next: 'nextSpaceUploading', find: 'findUnseenUploads', key: 'hash' },
  { next: 'nextSpaceUnjudged', find: 'findUnseenPacks', key: 'generation' },
] as const;

/** All of one kind, then all of the other. `space`: it is looked at, from the place in it on. */
interface Place {
  readonly kind: number;
  readonly space: number;
  readonly endsAt: number;
  readonly touchedAt: number;
  readonly key: string;
}

const FIRST: Place = { kind: 0, space: 0, endsAt: 0, touchedAt: 0, key: '' };

/** Walks over uploads and open packs whose bytes no server has seen, Space by Space: in each those whose URLs have ended are not read. */
function findUnseenUploads(
  sql: ReadStatements,
  { after, urlsEndAfter, limit }: UnseenWalk,
): Step<UnseenUpload> {
  const items: UnseenUpload[] = [];
  let place = after === undefined ? FIRST : (JSON.parse(after) as Place);
  for (let spaces = 0; spaces < 1_024 && items.length < limit; spaces += 1) {
    const kind = UNSEEN[place.kind];
    if (kind === undefined) return { items, next: undefined };
    const wanted = limit - items.length;
    const from = place.endsAt > urlsEndAfter ? place : { ...FIRST, endsAt: urlsEndAfter + 1 };
    const rows = sql[kind.find].all(
      ...[place.space, from.endsAt, from.touchedAt, hexToBytes(from.key), wanted],
    ) as SqlRow[];
    const space = findSpaceOf(sql.findSpaceById.get(place.space));
    if (space !== undefined) for (const row of rows) items.push(itemOf(space, row));
    const last = rows.length < wanted ? undefined : rows.at(-1);
    if (last !== undefined) {
      const key = bytesToHex(last[kind.key] as Uint8Array);
      const { url_expires_at: endsAt, touched_at: touchedAt } = last;
      place = { ...place, endsAt: endsAt as number, touchedAt: touchedAt as number, key };
      continue;
    }
    const next = sql[kind.next].get(place.space) as SqlRow | null;
    place =
      next === null
        ? { ...FIRST, kind: place.kind + 1 }
        : { ...FIRST, kind: place.kind, space: next.space as number };
  }
  return { items, next: JSON.stringify(place) };
}

function itemOf(space: Space, { hash, id, generation }: SqlRow): UnseenUpload {
  return {
    space,
    generation: bytesToHex(generation as Uint8Array),
    of: id === undefined ? { hash: bytesToHex(hash as Uint8Array) } : { pack: bytesToHex(id as Uint8Array) },
  };
}

/** Looks only by generation: one database holds all Spaces, and no generation is given twice. */
function findKnownGenerations(
  { isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed, isPackKnown }: ReadStatements,
  keys: readonly Pick<ObjectKey, 'generation'>[],
): ReadonlySet<Generation> {
  const records = [isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed, isPackKnown];
  const isKnown = (key: Uint8Array): boolean => records.some((sql) => sql.get(key) !== null);
  const known = keys.filter(({ generation }) => isKnown(hexToBytes(generation)));
  return new Set(known.map(({ generation }) => generation));
}

/** Whether the PUT of this generation, or its pack, was ever recorded as complete, so that its object is needed. */
export function isFinished(
  { isUploadKnown, isContentKnown, isPackKnown }: ReadStatements,
  generation: Generation,
): boolean {
  const key = hexToBytes(generation);
  const verdict = isUploadKnown.get(key)?.verdict;
  if (typeof verdict === 'number' || isContentKnown.get(key) !== null) return true;
  return typeof isPackKnown.get(key)?.bytes === 'number';
}
