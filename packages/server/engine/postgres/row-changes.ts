/** The rows that one transaction knows, before and after. Writes wait here and are sent set-based, one statement per kind. */
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { assertInvariant } from '../../core/invariant.ts';
import type { DiscardRow, Generation, NodeRow, SpaceKey, UploadRow } from '../../core/model.ts';
import { areCountsSame, isLeaseSame, isStateSame } from '../../core/node-row.ts';
import { type UsageDelta, usageDelta } from '../../core/usage-delta.ts';
import { usageToSql } from '../rows/codecs.ts';
import { countersSum } from './row-sums.ts';
import {
  type CountedNode,
  collectableFlag,
  countedFlag,
  discardsToSql,
  hashesToSql,
  looseEdgesToSql,
  nodeSumsToSql,
  nodesToSql,
  uploadsToSql,
} from './rows.ts';
import type { SeenUploads } from './seen-uploads.ts';
import type { Statement } from './wire/transaction-wire.ts';
import { hexToBytea } from './wire/wire-messages.ts';

interface Known<T> {
  /** undefined: no row */
  stored: T | undefined;
  current: T | undefined;
}

const AS_READ = 'a row is changed from exactly what was read';

export class RowChanges {
  readonly nodes = new Map<Hash, Known<CountedNode>>();
  readonly uploads = new Map<Hash, Known<UploadRow>>();
  /** `isPlaced`: this transaction has locked a record of the hash, which it made or found */
  readonly loose = new Map<Hash, { stored: number | undefined; current: number; isPlaced: boolean }>();
  readonly discards = new Map<Generation, DiscardRow | undefined>();
  readonly #space: SpaceKey;
  readonly #seenUploads: SeenUploads;
  #usage = [0, 0, 0, 0, 0, 0];
  #changeCount = 0;

  constructor(space: SpaceKey, seenUploads: SeenUploads) {
    this.#space = space;
    this.#seenUploads = seenUploads;
  }

  /** Grows with every write of a node; a commit of root refs writes no other rows. */
  get changeCount(): number {
    return this.#changeCount;
  }

  learnNode(hash: Hash, stored: CountedNode | undefined): void {
    if (!this.nodes.has(hash)) this.nodes.set(hash, { stored, current: stored });
  }

  learnUpload(hash: Hash, stored: UploadRow | undefined): void {
    if (this.uploads.has(hash)) return;
    this.uploads.set(hash, { stored, current: stored });
    this.#seenUploads.note(this.#space, hash, stored !== undefined);
  }

  insertNode(row: NodeRow): void {
    const known = this.nodes.get(row.hash) ?? { stored: undefined, current: undefined };
    assertInvariant(known.current === undefined, 'a hash has one row at most');
    this.nodes.set(row.hash, known);
    this.#setNode(known, { row, isLeaseCounted: row.leaseExpiresAt > 0 });
  }

  updateNode(before: NodeRow, after: NodeRow): void {
    const known = this.#knownNode(before);
    const { current } = known;
    const isLeaseSame = after.leaseExpiresAt === before.leaseExpiresAt;
    const isLeaseCounted = isLeaseSame ? (current?.isLeaseCounted ?? false) : after.leaseExpiresAt > 0;
    this.#setNode(known, { row: after, isLeaseCounted });
  }

  /** Deletes the stored row, whatever it holds, and inserts this one. */
  replaceNode(row: NodeRow, wasLeaseCounted: boolean, isLeaseCounted: boolean): void {
    // The sixth counter is that of leased nodes.
    this.#usage[5] = (this.#usage[5] ?? 0) + Number(isLeaseCounted) - Number(wasLeaseCounted);
    const stored = { row: { ...row, refs: new Uint8Array(row.refs) }, isLeaseCounted };
    this.nodes.set(row.hash, { stored, current: { row, isLeaseCounted } });
    this.#changeCount += 1;
  }

  deleteNode(before: NodeRow): void {
    this.#setNode(this.#knownNode(before), undefined);
  }

  #knownNode(before: NodeRow): Known<CountedNode> {
    const known = this.nodes.get(before.hash);
    const row = known?.current?.row;
    assertInvariant(known !== undefined && row !== undefined && isSameRow(row, before), AS_READ);
    return known;
  }

  #setNode(known: Known<CountedNode>, next: CountedNode | undefined): void {
    const delta = usageDelta(known.current?.row, next?.row);
    const leased = Number(next?.isLeaseCounted ?? false) - Number(known.current?.isLeaseCounted ?? false);
    this.#addUsage(delta, leased);
    known.current = next;
    this.#changeCount += 1;
  }

  #addUsage(delta: UsageDelta, leased: number): void {
    const deltas = [...usageToSql(delta), leased];
    this.#usage = this.#usage.map((count, index) => count + (deltas[index] as number));
  }

  correctUsage(by: KeptCounters): void {
    this.#addUsage(by, by.leasedCount);
    this.#changeCount += 1;
  }

  insertUpload(row: UploadRow): void {
    const known = this.uploads.get(row.hash) ?? { stored: undefined, current: undefined };
    assertInvariant(known.current === undefined, 'a hash has one upload at most');
    known.current = row;
    this.uploads.set(row.hash, known);
    this.#seenUploads.note(this.#space, row.hash, true);
  }

  /** `after` undefined: the upload is deleted */
  changeUpload(before: UploadRow, after: UploadRow | undefined): void {
    const known = this.uploads.get(before.hash);
    assertInvariant(known?.current?.generation === before.generation, AS_READ);
    known.current = after;
    this.#seenUploads.note(this.#space, before.hash, after !== undefined);
  }

  setLoose(hash: Hash, count: number): void {
    const known = this.loose.get(hash);
    if (known === undefined) this.loose.set(hash, { stored: undefined, current: count, isPlaced: false });
    else known.current = count;
  }

  isUploadExpected(hash: Hash): boolean {
    return this.#seenUploads.has(this.#space, hash);
  }

  hasUploadChanges(): boolean {
    for (const { stored, current } of this.uploads.values()) if (stored !== current) return true;
    return false;
  }

  /** The writes that make the database as the body left it. Afterwards these rows count as stored. */
  takeWrites(): Statement[] {
    return [...this.#takeNodes(), ...this.#takeLoose(), ...this.#takeUploads(), ...this.#takeDiscards()];
  }

  /** They come last, because other transactions may wait for this row. */
  takeCounters(slot: number): Statement[] {
    const counts = this.#usage;
    if (counts.every((count) => count === 0)) return [];
    this.#usage = counts.map(() => 0);
    return [['addCounters', [this.#space, slot, ...counts, countersSum(this.#space, slot, counts, 0)]]];
  }

  #takeNodes(): Statement[] {
    const inserted: CountedNode[] = [];
    const changes: Record<'lease' | 'counts' | 'all', CountedNode[]> = { lease: [], counts: [], all: [] };
    const deleted: Hash[] = [];
    for (const [hash, known] of this.nodes) {
      const { stored, current } = known;
      if (stored === current) continue;
      if (stored === undefined) inserted.push(current as CountedNode);
      else if (current === undefined) deleted.push(hash);
      else if (current.row.refs === stored.row.refs) {
        const change = changeOfNode(stored, current);
        changes[change].push(change === 'all' ? current : { ...current, fixedSum: stored.fixedSum });
      } else {
        // The body deleted the row and inserted another one for the same hash.
        deleted.push(hash);
        inserted.push(current);
      }
      known.stored = current;
    }
    const space = this.#space;
    const writes: Statement[] = [];
    if (deleted.length > 0) writes.push(['deleteNodes', [space, hashesToSql(deleted), deleted.length]]);
    if (inserted.length > 0) writes.push(['insertNodes', [space, ...nodesToSql(space, inserted)]]);
    if (changes.lease.length > 0) writes.push(this.#updateLeases(changes.lease));
    if (changes.counts.length > 0) writes.push(this.#updateCounts(changes.counts));
    if (changes.all.length > 0) {
      writes.push(['updateNodes', [space, ...nodesToSql(space, changes.all), changes.all.length]]);
    }
    return writes;
  }

  #updateLeases(nodes: readonly CountedNode[]): Statement {
    return [
      'updateNodeLeases',
      [
        this.#space,
        nodes.map(({ row }) => hexToBytea(row.hash)),
        nodes.map(({ row }) => row.leaseStartedAt),
        nodes.map(({ row }) => row.leaseExpiresAt),
        nodes.map(countedFlag),
        ...nodeSumsToSql(this.#space, nodes),
        nodes.length,
      ],
    ];
  }

  #updateCounts(nodes: readonly CountedNode[]): Statement {
    return [
      'updateNodeCounts',
      [
        this.#space,
        nodes.map(({ row }) => hexToBytea(row.hash)),
        nodes.map(({ row }) => row.childRefCount),
        nodes.map(({ row }) => row.rootRefCount),
        nodes.map(({ row }) => row.heldDomainCount),
        nodes.map(({ row }) => collectableFlag(row)),
        ...nodeSumsToSql(this.#space, nodes),
        nodes.length,
      ],
    ];
  }

  #takeLoose(): Statement[] {
    const set: { hash: Hash; count: number }[] = [];
    const gone: Hash[] = [];
    for (const [hash, known] of this.loose) {
      const { stored, current, isPlaced } = known;
      if (current > 0 && current !== stored) set.push({ hash, count: current });
      if (current === 0 && (isPlaced || stored !== 0)) gone.push(hash);
      known.stored = current;
      known.isPlaced = current > 0;
    }
    const writes: Statement[] = [];
    if (gone.length > 0) writes.push(['deleteLooseEdges', [this.#space, hashesToSql(gone)]]);
    if (set.length > 0) {
      writes.push(['setLooseEdges', [this.#space, ...looseEdgesToSql(this.#space, set)]]);
    }
    return writes;
  }

  #takeUploads(): Statement[] {
    const inserted: UploadRow[] = [];
    const changed: UploadRow[] = [];
    const deleted: Hash[] = [];
    for (const [hash, known] of this.uploads) {
      const { stored, current } = known;
      if (stored === current) continue;
      if (current === undefined) deleted.push(hash);
      else if (stored === undefined) inserted.push(current);
      else changed.push(current);
      known.stored = current;
    }
    const space = this.#space;
    const writes: Statement[] = [];
    if (deleted.length > 0) writes.push(['deleteUploads', [space, hashesToSql(deleted), deleted.length]]);
    if (inserted.length > 0) writes.push(['insertUploads', [space, ...uploadsToSql(space, inserted)]]);
    if (changed.length > 0) {
      writes.push(['updateUploads', [space, ...uploadsToSql(space, changed), changed.length]]);
    }
    return writes;
  }

  #takeDiscards(): Statement[] {
    const entries = [...this.discards];
    this.discards.clear();
    const set = entries.flatMap(([, row]) => (row === undefined ? [] : [row]));
    const gone = entries.filter(([, row]) => row === undefined).map(([generation]) => generation);
    const writes: Statement[] = [];
    if (set.length > 0) writes.push(['setDiscards', [this.#space, ...discardsToSql(this.#space, set)]]);
    if (gone.length > 0) writes.push(['deleteDiscards', [this.#space, hashesToSql(gone)]]);
    return writes;
  }
}

/** Compares the fields that can change; the others are immutable. */
function isSameRow(left: NodeRow, right: NodeRow): boolean {
  return (
    left === right || (isLeaseSame(left, right) && areCountsSame(left, right) && isStateSame(left, right))
  );
}

function changeOfNode({ row: before }: CountedNode, { row: after }: CountedNode): 'lease' | 'counts' | 'all' {
  if (!isStateSame(before, after)) return 'all';
  if (areCountsSame(before, after)) return 'lease';
  return isLeaseSame(before, after) ? 'counts' : 'all';
}
