/**
 * Contents and packs that one transaction changes. Nothing is sent before its end, unless the body asks for what packs hold then:
 * so rows of packs are locked after all rows of nodes, once, in the order of their generations, and two transactions that change
 * the same packs never wait for each other in a circle. Rows of packs are read without a lock. If one that is changed was changed
 * by another transaction meanwhile, the body runs again.
 */
import { assertInvariant } from '../../core/invariant.ts';
import type { ContentRow, Generation, PackPlace, SpaceKey } from '../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../core/pack-model.ts';
import type { Stored } from '../../core/quotas.ts';
import { NEW_VERSION, newPacksToSql, packsToSql, verdictsToSql } from './packs/pack-rows.ts';
import { contentsToSql, hashesToSql } from './rows.ts';
import type { Statement } from './wire/transaction-wire.ts';
import { hexToBytea } from './wire/wire-messages.ts';

/** A row as it was read: the version is changed with it. */
export interface VersionedPack {
  readonly row: PackRow;
  readonly version: number;
}

interface KnownPack {
  /** undefined: no row */
  stored: VersionedPack | undefined;
  current: PackRow | undefined;
}

/** Records that a pack has more, or less, of those that died. */
interface UseChange {
  records: number;
  bytes: number;
}

export class ContentChanges {
  readonly contents = new Map<Generation, { insert: ContentRow | undefined; isDeleted: boolean }>();
  readonly verdicts = new Map<Generation, PackVerdicts>();
  readonly #packs = new Map<Generation, KnownPack>();
  /** undefined: there is none */
  readonly #byId = new Map<PackId, Generation | undefined>();
  readonly #came = new Map<Generation, UseChange>();
  readonly #died = new Map<Generation, UseChange>();
  readonly #space: SpaceKey;

  constructor(space: SpaceKey) {
    this.#space = space;
  }

  insertContent(row: ContentRow): void {
    const { generation } = row;
    assertInvariant(!this.contents.has(generation), 'a generation has content once: keys are write-once');
    this.contents.set(generation, { insert: row, isDeleted: false });
  }

  deleteContent(generation: Generation): void {
    const packed = this.contents.get(generation)?.insert?.packed;
    if (packed !== undefined) {
      count(this.#came, packed.pack, 1, packed.storedLength);
      count(this.#died, packed.pack, -1, -packed.storedLength);
    }
    this.contents.set(generation, { insert: undefined, isDeleted: true });
  }

  /** `undefined`: not known yet */
  findKnown(id: PackId): { readonly row: PackRow | undefined } | undefined {
    if (!this.#byId.has(id)) return undefined;
    return { row: this.#packs.get(this.#byId.get(id) ?? '')?.current };
  }

  /** Returns the row as this transaction has left it. */
  learnPack(stored: VersionedPack): PackRow | undefined {
    const { generation, id } = stored.row;
    const known = this.#packs.get(generation);
    if (known !== undefined) return known.current;
    this.#byId.set(id, generation);
    this.#packs.set(generation, { stored, current: stored.row });
    return stored.row;
  }

  learnNoPack(id: PackId): void {
    if (!this.#byId.has(id)) this.#byId.set(id, undefined);
  }

  insertPack(row: PackRow): void {
    assertInvariant(!this.#packs.has(row.generation), 'a generation names one pack at most');
    this.#byId.set(row.id, row.generation);
    this.#packs.set(row.generation, { stored: undefined, current: row });
  }

  /** `after` undefined: the row is deleted */
  changePack(before: PackRow, after: PackRow | undefined): void {
    const known = this.#packs.get(before.generation);
    assertInvariant(
      known?.current !== undefined && Bun.deepEquals(known.current, before),
      'the row of a pack is changed from exactly what was read',
    );
    known.current = after;
    if (after === undefined) this.verdicts.delete(before.generation);
  }

  /** A record was moved already; the packs learn it with the other changes. */
  noteMoved(from: PackPlace, to: PackPlace): void {
    count(this.#died, from.pack, -1, -from.storedLength);
    count(this.#came, to.pack, 1, to.storedLength);
  }

  /** Whether what packs hold has changed since it was sent. */
  get isUseChanged(): boolean {
    return this.contents.size > 0 || this.#came.size > 0 || this.#died.size > 0;
  }

  get isPackChanged(): boolean {
    for (const known of this.#packs.values()) if (isChanged(known)) return true;
    return false;
  }

  /** The room that these rows reserve beyond that of the stored rows. */
  get reservedMore(): Stored {
    const more = { bytes: 0, nodes: 0 };
    for (const { stored, current } of this.#packs.values()) {
      more.bytes += (current?.reserved.bytes ?? 0) - (stored?.row.reserved.bytes ?? 0);
      more.nodes += (current?.reserved.nodes ?? 0) - (stored?.row.reserved.nodes ?? 0);
    }
    return more;
  }

  /** `clock`: a test's time, or null. Afterwards everything counts as stored. */
  takeWrites(clock: number | null): Statement[] {
    const changed = [...this.#packs.values()].filter(isChanged);
    const inserted = changed.flatMap(({ stored, current }) => (stored || !current ? [] : [current]));
    const updated = changed.filter(({ stored, current }) => stored && current);
    const deleted = changed.flatMap(({ stored, current }) => (stored && !current ? [stored] : []));
    const locked = changed.flatMap(({ stored }) => (stored ? [stored.row.generation] : []));
    const space = this.#space;
    const writes: Statement[] = [];
    if (inserted.length > 0) writes.push(['insertPacks', [space, ...newPacksToSql(space, inserted)]]);
    writes.push(...this.#takeContents(locked, clock));
    if (updated.length > 0) writes.push(this.#updatePacks(updated, clock));
    if (deleted.length > 0) writes.push(...this.#deletePacks(deleted));
    writes.push(...this.#takeVerdicts());
    for (const known of changed) {
      const version = known.stored === undefined ? NEW_VERSION : known.stored.version + 1;
      known.stored = known.current && { row: known.current, version };
    }
    return writes;
  }

  #takeContents(locked: readonly Generation[], clock: number | null): Statement[] {
    const entries = [...this.contents];
    this.contents.clear();
    const deleted = entries.filter(([, { isDeleted }]) => isDeleted).map(([generation]) => generation);
    const inserted = entries.flatMap(([, { insert }]) => (insert === undefined ? [] : [insert]));
    for (const { packed } of inserted) {
      if (packed !== undefined) count(this.#came, packed.pack, 1, packed.storedLength);
    }
    const changes = [
      ...[...this.#came].map(([pack, change]) => ({ pack, ...change, died: 'f' })),
      ...[...this.#died].map(([pack, change]) => ({ pack, ...change, died: 't' })),
    ];
    this.#came.clear();
    this.#died.clear();
    const space = this.#space;
    const writes: Statement[] = [];
    if (inserted.length > 0) writes.push(['insertContents', [space, ...contentsToSql(space, inserted)]]);
    if (deleted.length === 0 && changes.length === 0) return writes;
    const use = [
      changes.map(({ pack }) => hexToBytea(pack)),
      changes.map(({ records }) => records),
      changes.map(({ bytes }) => bytes),
      changes.map(({ died }) => died),
    ];
    writes.push(['settleContents', [space, hashesToSql(deleted), ...use, hashesToSql(locked), clock]]);
    return writes;
  }

  #updatePacks(changed: readonly KnownPack[], clock: number | null): Statement {
    const rows = changed.flatMap(({ current }) => (current === undefined ? [] : [current]));
    const versions = changed.map(({ stored }) => stored?.version ?? 0);
    const next = versions.map((version) => version + 1);
    const columns = packsToSql(this.#space, rows, next);
    return ['updatePacks', [this.#space, ...columns, versions, rows.length, clock]];
  }

  #deletePacks(deleted: readonly VersionedPack[]): Statement[] {
    const generations = hashesToSql(deleted.map(({ row }) => row.generation));
    const versions = deleted.map(({ version }) => version);
    return [
      ['deletePacks', [this.#space, generations, versions, deleted.length]],
      ['deleteVerdicts', [this.#space, generations]],
    ];
  }

  #takeVerdicts(): Statement[] {
    const entries = [...this.verdicts];
    this.verdicts.clear();
    return entries.map(([generation, verdicts]) => [
      'setVerdicts',
      [this.#space, hexToBytea(generation), ...verdictsToSql(this.#space, generation, verdicts)],
    ]);
  }
}

function isChanged({ stored, current }: KnownPack): boolean {
  return stored?.row !== current;
}

function count(changes: Map<Generation, UseChange>, pack: Generation, records: number, bytes: number): void {
  const change = changes.get(pack) ?? { records: 0, bytes: 0 };
  changes.set(pack, { records: change.records + records, bytes: change.bytes + bytes });
}
