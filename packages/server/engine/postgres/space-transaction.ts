/** SpaceTransaction on PostgreSQL. Reads lock and remember rows. Writes go with the commit, or before a range read that must see them. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../core/awaitable.ts';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { assertCount } from '../../core/invariant.ts';
import type {
  ContentRow,
  DiscardRow,
  Generation,
  NodeRow,
  RootRefCommit,
  Space,
  SpaceKey,
  UploadRow,
} from '../../core/model.ts';
import type { DueRows, NewRow, OldRow, RootRefReads, RowChange, SpaceTransaction } from '../../core/ports.ts';
import { type Stored, storedOf } from '../../core/quotas.ts';
import type { PurgeVerbs, SpaceHoldings } from '../../core/tenancy-ports.ts';
import { holdingsFromSql, keptFromSql, usageFromSql } from '../rows/codecs.ts';
import { ContentChanges } from './content-changes.ts';
import { sumSlots } from './counters.ts';
import { PostgresNodeMending } from './node-mending.ts';
import { PostgresPacks } from './packs/pack-transaction.ts';
import { PostgresPurge } from './purge.ts';
import { type BalanceChange, RootRefLedger } from './root-ref-ledger.ts';
import { RowChanges } from './row-changes.ts';
import { RowLocks } from './row-locks.ts';
import { contentFromSql, findDiscardInSql, findProvenUpload, hashesToSql, readNode } from './rows.ts';
import type { SeenUploads } from './seen-uploads.ts';
import type { DomainStart } from './tombstones.ts';
import { UploadCount, type UploadLimit } from './upload-limit.ts';
import { NowUnknown, type Statement, type TransactionWire } from './wire/transaction-wire.ts';
import { hexToBytea, type SqlResult, type SqlRow, type SqlValue } from './wire/wire-messages.ts';

interface TransactionOptions {
  readonly wire: TransactionWire;
  readonly space: Space;
  readonly spaceKey: SpaceKey;
  /** the names of the Space are in the database already */
  readonly isSpaceKnown: boolean;
  readonly uploadLimit: UploadLimit;
  readonly seenUploads: SeenUploads;
  readonly domainStart: DomainStart;
}

type NodeRange = 'findCandidates' | 'findClaimed' | 'findAbandonedWaiting';

export class PostgresSpaceTransaction implements SpaceTransaction {
  readonly #options: TransactionOptions;
  readonly #wire: TransactionWire;
  readonly #key: SpaceKey;
  readonly #rows: RowChanges;
  readonly #contents: ContentChanges;
  readonly packs: PostgresPacks;
  readonly #rootRefs: RootRefLedger;
  readonly #uploads: UploadCount;
  readonly #locks: RowLocks;
  #isSpaceWritten: boolean;
  #hasFlushed = false;
  #mending: PostgresNodeMending | undefined;

  constructor(options: TransactionOptions) {
    this.#options = options;
    this.#wire = options.wire;
    this.#key = options.spaceKey;
    this.#rows = new RowChanges(this.#key, options.seenUploads);
    this.#contents = new ContentChanges(this.#key);
    this.packs = new PostgresPacks({
      ...{ wire: this.#wire, space: this.#key, changes: this.#contents },
      flush: () => this.#flush('all'),
      findUploads: (hashes) => this.#locks.findUploads(hashes),
    });
    this.#rootRefs = new RootRefLedger(this.#wire, this.#key, options.domainStart.revision);
    this.#uploads = new UploadCount(this.#wire, this.#key, options.uploadLimit);
    this.#locks = new RowLocks({
      wire: this.#wire,
      space: this.#key,
      rows: this.#rows,
      uploads: this.#uploads,
    });
    this.#isSpaceWritten = options.isSpaceKnown;
  }

  /** Known with the first answer. A body that asks earlier is run again once it is known; no body of a hot path asks so early. */
  get now(): number {
    const { now } = this.#wire;
    if (now !== undefined) return now;
    const again = new NowUnknown('the instant of the transaction is not known yet');
    this.#wire.fail(again);
    throw again;
  }

  /** The names of the Space are in the database if this transaction commits. */
  get isSpaceWritten(): boolean {
    return this.#isSpaceWritten;
  }

  /** Some writes were sent already, so the transaction must commit even if no write is left. */
  get hasFlushed(): boolean {
    return this.#hasFlushed;
  }

  /** The writes that are left. Those of contents and packs wait for the commit, if they can. */
  takeWrites(which: 'all' | 'all but packs' = 'all'): Statement[] {
    const writes = [
      ...this.#rootRefs.takeWrites(),
      ...this.#rows.takeWrites(),
      ...(which === 'all' ? this.#contents.takeWrites(this.#wire.clock) : []),
      ...this.#rows.takeCounters(this.#wire.slot),
    ];
    if (writes.length === 0 || this.#isSpaceWritten) return writes;
    return [...this.#writeSpace(), ...writes];
  }

  #writeSpace(): Statement[] {
    this.#isSpaceWritten = true;
    const { appId, spaceId } = this.#options.space;
    return [['insertSpace', [this.#key, appId, spaceId]]];
  }

  findNode(hash: Hash): Awaitable<NodeRow | undefined> {
    return this.#locks.findNode(hash);
  }

  findNodes(hashes: readonly Hash[]): Awaitable<readonly (NodeRow | undefined)[]> {
    return this.#locks.findNodes(hashes);
  }

  // The tuples are read by index: destructuring would run an iterator for each row.
  insert(...row: NewRow): void {
    this.#wire.assertUsable();
    if (row[0] === 'node') this.#rows.insertNode(row[1]);
    else if (row[0] === 'upload') this.#rows.insertUpload(row[1]);
    else if (row[0] === 'content') this.#contents.insertContent(row[1]);
    else if (row[0] === 'published') {
      for (const { node, content } of row[1]) {
        this.#contents.insertContent(content);
        this.#rows.insertNode(node);
      }
    } else if (row[0] === 'pack') this.#contents.insertPack(row[1]);
    else this.#rows.discards.set(row[1].generation, row[1]);
  }

  update(...change: RowChange): Awaitable<void> {
    this.#wire.assertUsable();
    if (change[0] === 'node') return this.#rows.updateNode(change[1], change[2]);
    if (change[0] === 'upload') return this.#changeUpload(change[1], change[2]);
    return this.packs.change(change[1], change[2]);
  }

  delete(...row: OldRow): Awaitable<void> {
    this.#wire.assertUsable();
    if (row[0] === 'upload') return this.#changeUpload(row[1], undefined);
    if (row[0] === 'pack') return this.packs.change(row[1], undefined);
    if (row[0] === 'node') this.#rows.deleteNode(row[1]);
    else if (row[0] === 'content') this.#contents.deleteContent(row[1]);
    else this.#rows.discards.set(row[1], undefined);
  }

  /** One for all its verbs: it keeps what it has found of a row. */
  get mending(): PostgresNodeMending {
    this.#mending ??= new PostgresNodeMending(this.#wire, this.#key, this.#rows);
    return this.#mending;
  }

  findLooseEdges(hashes: readonly Hash[]): Awaitable<readonly number[]> {
    return this.#locks.findLooseEdges(hashes);
  }

  setLooseEdges(hash: Hash, count: number): void {
    this.#wire.assertUsable();
    this.#rows.setLoose(hash, count);
  }

  findUpload(hash: Hash): Awaitable<UploadRow | undefined> {
    return this.#locks.findUpload(hash);
  }

  #changeUpload(before: UploadRow, after: UploadRow | undefined): Awaitable<void> {
    if (this.#rows.uploads.has(before.hash)) return this.#rows.changeUpload(before, after);
    return this.#locks.lockUpload(before.hash).then(() => this.#rows.changeUpload(before, after));
  }

  /** The sums begin after the lock is held, so that they see what those before have committed. */
  async lockStored(): Promise<Stored> {
    // This transaction's own writes count too.
    const flushed = this.#flush();
    const { bytes, nodes } = this.#contents.reservedMore;
    const locking = this.#wire.send('lockSpace', [this.#key]);
    const [stored, reserved] = await Promise.all([
      this.#wire.send('readSlots', [this.#key]),
      this.#wire.send('sumReserved', [this.#key]),
      ...[locking, ...flushed],
    ]);
    const published = storedOf(usageFromSql(sumSlots(this.#key, stored.rows)));
    const [kept] = reserved.rows;
    return {
      bytes: published.bytes + (kept?.bytes as number) + bytes,
      nodes: published.nodes + (kept?.nodes as number) + nodes,
    };
  }

  async lockHoldings(): Promise<SpaceHoldings> {
    const flushed = this.#flush('all');
    const locking = this.#wire.send('lockSpace', [this.#key]);
    const [found] = await Promise.all([
      this.#wire.send('sumHoldings', [this.#key]),
      ...[locking, ...flushed],
    ]);
    return holdingsFromSql(found.rows[0] as SqlRow);
  }

  countActiveUploads(atMost: number): Promise<number> {
    const isPackChanged = this.#contents.isPackChanged;
    const hasChanges = isPackChanged || this.#rows.hasUploadChanges();
    return this.#uploads.count(atMost, hasChanges, () => this.#flush(isPackChanged ? 'all' : undefined));
  }

  async findContent(generation: Generation): Promise<ContentRow | undefined> {
    const change = this.#contents.contents.get(generation);
    if (change !== undefined) return change.insert;
    const key = [this.#key, hexToBytea(generation)];
    const found = await this.#wire.send('findContent', key);
    const content = found.rows[0] && contentFromSql(this.#key, found.rows[0], this.now);
    if (content?.packed === undefined) return content;
    // Its row is not moved from here on, so what is decided by the place of the record stays true.
    const { rows } = await this.#wire.send('lockContent', key);
    return rows[0] && contentFromSql(this.#key, rows[0], this.now);
  }

  async due<K extends keyof DueRows>(
    kind: K,
    at: number | undefined,
    limit: number,
    from = 0,
  ): Promise<readonly DueRows[K][]> {
    return (await this.#due(kind, at ?? this.#wire.clock, limit, from)) as readonly DueRows[K][];
  }

  #due(
    kind: keyof DueRows,
    at: number | null,
    limit: number,
    from: number,
  ): Promise<readonly DueRows[keyof DueRows][]> {
    switch (kind) {
      case 'candidates':
        return this.#findCandidates(at, limit, from);
      case 'claimed':
        return this.#findNodeRange('findClaimed', at, limit);
      case 'waiting':
        return this.#findNodeRange('findAbandonedWaiting', at, limit);
      case 'uploads':
        return this.#findAbandonedUploads(at, limit);
      case 'discards':
        return this.#findDiscards(at, limit);
      case 'packs':
        return this.packs.findDue(at, limit);
    }
  }

  /** In the order in which their leases ended. */
  async #findCandidates(at: number | null, limit: number, from: number): Promise<readonly NodeRow[]> {
    if (from > 0) return this.#findNodeRange('findCandidates', at, limit, from);
    const [moved, found] = await Promise.all([
      this.#wire.send('moveCandidates', [this.#key, this.#wire.clock, 10_000]),
      this.#findNodeRange('findCandidates', at, limit, from),
    ]);
    if (moved.count > 0) this.#hasFlushed = true;
    return found;
  }

  async #findDiscards(at: number | null, limit: number): Promise<readonly DiscardRow[]> {
    const { rows } = await this.#findRange('findDiscards', [this.#key, at, limit]);
    return rows.map((row) => findDiscardInSql(this.#key, row)).filter((row) => row !== undefined);
  }

  get purging(): PurgeVerbs {
    this.#hasFlushed = true;
    return new PostgresPurge(this.#wire, this.#key);
  }

  async #findAbandonedUploads(at: number | null, limit: number): Promise<readonly UploadRow[]> {
    const found = await this.#findRange('findAbandonedUploads', [this.#key, at, limit]);
    return found.rows.flatMap((row) => {
      // One that is damaged is left alone: check names it.
      const upload = findProvenUpload(this.#key, row);
      if (upload === undefined) return [];
      this.#rows.learnUpload(upload.hash, upload);
      return [this.#rows.uploads.get(upload.hash)?.current ?? upload];
    });
  }

  /** Reads in one trip all that these commits look at, so that their bodies find it here. */
  async prefetch(reads: readonly RootRefReads[]): Promise<void> {
    const hashes = reads.flatMap((each) => each.hashes);
    await Promise.all([this.#rootRefs.prefetch(reads), this.#locks.lockNodes(hashes)]);
  }

  /** Grows with every write, so it shows whether a body has changed anything. */
  get changeCount(): number {
    return this.#rows.changeCount + this.#rootRefs.changeCount;
  }

  async correctCounters(by: KeptCounters): Promise<void> {
    const slots = (await this.#wire.send('readSlots', [this.#key])).rows.map(keptFromSql);
    for (const [name, change] of Object.entries(by)) {
      // One slot may be negative, their sum never.
      const kept = slots.reduce((sum, slot) => sum + slot[name as keyof KeptCounters], 0);
      assertCount(kept + change, name);
    }
    this.#rows.correctUsage(by);
  }

  findRootRefCommit(domain: string, requestId: string): Promise<RootRefCommit | undefined> {
    return this.#rootRefs.findCommit(domain, requestId);
  }

  findRevision(domain: string): Promise<number> {
    return this.#rootRefs.findRevision(domain);
  }

  findBalances(domain: string, hashes: readonly Hash[]): Promise<readonly number[]> {
    return this.#rootRefs.findBalances(domain, hashes);
  }

  noteWalk(domain: string): Promise<void> {
    this.#hasFlushed = true;
    return this.#rootRefs.noteWalk(domain);
  }

  insertRootRefCommit(
    domain: string,
    commit: RootRefCommit,
    changes: readonly BalanceChange[],
  ): Promise<void> {
    return this.#rootRefs.insertCommit(domain, commit, changes);
  }

  async #findNodeRange(
    name: NodeRange,
    at: number | null,
    limit: number,
    ...more: readonly number[]
  ): Promise<NodeRow[]> {
    const damaged: Hash[] = [];
    for (;;) {
      const { rows } = await this.#findRange(name, [
        ...[this.#key, at, limit, hashesToSql(damaged)],
        ...more,
      ]);
      const read = rows.map((row) => readNode(this.#key, row));
      const found = read.filter(({ isProven }) => isProven);
      // Nothing is done to a row that is damaged, and none of them holds up the others.
      damaged.push(...read.filter(({ isProven }) => !isProven).map(({ row }) => row.hash));
      if (found.length < read.length) continue;
      return found.map(({ row, isLeaseCounted }) => {
        this.#rows.learnNode(row.hash, { row, isLeaseCounted });
        return this.#rows.nodes.get(row.hash)?.current?.row ?? row;
      });
    }
  }

  async #findRange(
    name: NodeRange | 'findDiscards' | 'findAbandonedUploads',
    parameters: readonly SqlValue[],
  ) {
    const flushed = this.#flush();
    const [found] = await Promise.all([this.#wire.send(name, parameters), ...flushed]);
    return found;
  }

  #flush(which: 'all' | 'all but packs' = 'all but packs'): Promise<SqlResult>[] {
    const writes = this.takeWrites(which);
    if (writes.length > 0) this.#hasFlushed = true;
    return writes.map((write) => this.#wire.send(...write));
  }
}
