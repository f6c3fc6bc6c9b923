/**
 * The row verbs of core/ports.ts SpaceTransaction on PostgreSQL: one unit of work. Reads lock the rows they find and remember
 * them. Writes change the remembered rows and are sent together with the commit, or before a range read, which must see them.
 */
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { assertInvariant } from '../../core/invariant.ts';
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
import type { Awaitable, RootRefReads, SpaceTransaction } from '../../core/ports.ts';
import { type Stored, storedOf } from '../../core/quotas.ts';
import type { PurgeVerbs } from '../../core/tenancy-ports.ts';
import { ContentChanges } from './content-changes.ts';
import { PostgresPacks } from './pack-transaction.ts';
import { PostgresPurge } from './purge.ts';
import { type BalanceChange, RootRefLedger } from './root-ref-ledger.ts';
import { RowChanges } from './row-changes.ts';
import {
  contentFromSql,
  countedNodeFromSql,
  discardFromSql,
  hashesToSql,
  totalsFromSql,
  uploadFromSql,
} from './rows.ts';
import { UploadCount, type UploadLimit } from './upload-limit.ts';
import { byteaToHex, hexToBytea, type SqlResult, type SqlRow, type SqlValue } from './wire/sql-values.ts';
import { NowUnknown, type Statement, type TransactionWire } from './wire/transaction-wire.ts';

interface TransactionOptions {
  readonly wire: TransactionWire;
  readonly space: Space;
  readonly spaceKey: SpaceKey;
  /** the names of the Space are in the database already */
  readonly isSpaceKnown: boolean;
  readonly uploadLimit: UploadLimit;
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
  #isSpaceWritten: boolean;
  #hasFlushed = false;

  constructor(options: TransactionOptions) {
    this.#options = options;
    this.#wire = options.wire;
    this.#key = options.spaceKey;
    this.#rows = new RowChanges(this.#key);
    this.#contents = new ContentChanges(this.#key);
    this.packs = new PostgresPacks({
      ...{ wire: this.#wire, space: this.#key, changes: this.#contents },
      flush: () => this.#flush('all'),
      findUploads: (hashes) => this.#findUploads(hashes),
    });
    this.#rootRefs = new RootRefLedger(this.#wire, this.#key);
    this.#uploads = new UploadCount(this.#wire, this.#key, options.uploadLimit);
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
    return [
      ['insertSpace', [this.#key, appId, spaceId]],
      ['checkSpace', [this.#key, appId, spaceId]],
    ];
  }

  findNode(hash: Hash): Awaitable<NodeRow | undefined> {
    const known = this.#rows.nodes.get(hash);
    return known === undefined ? this.#lockNode(hash) : known.current?.row;
  }

  /** Locks its upload too: if there is no ready row, the body looks for that next. */
  async #lockNode(hash: Hash): Promise<NodeRow | undefined> {
    const key = hexToBytea(hash);
    // The upload first. A publication deletes the upload and makes the row, so whoever waited here for a publication finds no
    // upload, and must then find the row.
    const [upload, node] = await Promise.all([
      this.#rows.uploads.has(hash) ? undefined : this.#wire.send('lockUpload', [this.#key, key]),
      this.#wire.send('lockNode', [this.#key, key]),
      this.#uploads.countAhead(key),
    ]);
    this.#rows.learnNode(hash, node.rows[0] && countedNodeFromSql(node.rows[0]));
    if (upload !== undefined) this.#rows.learnUpload(hash, uploadOf(upload));
    return this.#rows.nodes.get(hash)?.current?.row;
  }

  findNodes(hashes: readonly Hash[]): Awaitable<readonly (NodeRow | undefined)[]> {
    const { nodes } = this.#rows;
    const unknown = sortedUnknown(hashes, nodes);
    const aligned = () => hashes.map((hash) => nodes.get(hash)?.current?.row);
    if (unknown.length === 0) return aligned();
    const publishing = this.#findPublishing();
    if (publishing === undefined) return this.#lockNodes(unknown).then(aligned);
    return this.#lockNodesAndAbsent(unknown, publishing).then(aligned);
  }

  async #lockNodes(hashes: readonly Hash[]): Promise<void> {
    const { rows } = await this.#wire.send('lockNodes', [this.#key, hashesToSql(hashes)]);
    for (const row of rows) this.#rows.learnNode(byteaToHex(row.hash), countedNodeFromSql(row));
    for (const hash of hashes) this.#rows.learnNode(hash, undefined);
  }

  /** The hash whose first row is about to be made: it was looked for alone and has an upload, and its edges are read next. */
  #findPublishing(): Hash | undefined {
    for (const [hash, { stored }] of this.#rows.nodes) {
      if (
        stored === undefined &&
        this.#rows.uploads.get(hash)?.stored !== undefined &&
        !this.#rows.loose.has(hash)
      )
        return hash;
    }
    return undefined;
  }

  /** Reads the children of a row that is about to be made. Locks those without a row, and the new row, in the same trip. */
  async #lockNodesAndAbsent(hashes: readonly Hash[], publishing: Hash): Promise<void> {
    const own = sortedUnknown([publishing, ...hashes], this.#rows.loose);
    const [{ rows }, absent, appeared] = await Promise.all([
      this.#wire.send('lockNodes', [this.#key, hashesToSql(hashes)]),
      this.#wire.send('lockAbsent', [this.#key, hashesToSql(own)]),
      this.#wire.send('findAppeared', [this.#key, hashesToSql(own)]),
    ]);
    for (const row of rows) this.#rows.learnNode(byteaToHex(row.hash), countedNodeFromSql(row));
    for (const hash of hashes) this.#rows.learnNode(hash, undefined);
    this.#learnLoose(absent);
    this.#assertStillAbsent(appeared);
  }

  insertNode(row: NodeRow): void {
    this.#wire.assertUsable();
    this.#rows.insertNode(row);
  }

  updateNode(before: NodeRow, after: NodeRow): Awaitable<void> {
    this.#wire.assertUsable();
    this.#rows.updateNode(before, after);
  }

  deleteNode(before: NodeRow): Awaitable<void> {
    this.#wire.assertUsable();
    this.#rows.deleteNode(before);
  }

  /**
   * Locks a hash without a row by a record of its edges, made if there is none, and then looks for its row once more. So two
   * transactions that make a row and an edge to it at the same time never miss each other: the later one waits here, and either
   * finds the other's edges, or finds its row and begins again.
   */
  findLooseEdges(hashes: readonly Hash[]): Awaitable<readonly number[]> {
    this.#wire.assertUsable();
    const { loose } = this.#rows;
    const unknown = sortedUnknown(hashes, loose);
    const aligned = () => hashes.map((hash) => loose.get(hash)?.current ?? 0);
    return unknown.length === 0 ? aligned() : this.#lockLoose(unknown).then(aligned);
  }

  async #lockLoose(hashes: readonly Hash[]): Promise<void> {
    const keys = hashesToSql(hashes);
    const [locked, appeared] = await Promise.all([
      this.#wire.send('lockLooseEdges', [this.#key, keys]),
      this.#wire.send('findAppeared', [this.#key, keys]),
    ]);
    this.#learnLoose(locked);
    this.#assertStillAbsent(appeared);
  }

  #learnLoose({ rows }: SqlResult): void {
    for (const row of rows) {
      const count = row.count as number;
      this.#rows.loose.set(byteaToHex(row.hash), { stored: count, current: count, isPlaced: true });
    }
  }

  #assertStillAbsent({ rows }: SqlResult): void {
    for (const row of rows) {
      const hash = byteaToHex(row.hash);
      const known = this.#rows.nodes.get(hash);
      if (known === undefined || known.stored !== undefined || !this.#rows.loose.has(hash)) continue;
      this.#wire.runAgain('a row appeared where there was none');
    }
  }

  setLooseEdges(hash: Hash, count: number): void {
    this.#wire.assertUsable();
    this.#rows.setLoose(hash, count);
  }

  findUpload(hash: Hash): Awaitable<UploadRow | undefined> {
    const known = this.#rows.uploads.get(hash);
    return known === undefined ? this.#lockUpload(hash) : known.current;
  }

  async #lockUpload(hash: Hash): Promise<UploadRow | undefined> {
    const found = await this.#wire.send('lockUpload', [this.#key, hexToBytea(hash)]);
    this.#rows.learnUpload(hash, uploadOf(found));
    return this.#rows.uploads.get(hash)?.current;
  }

  async #findUploads(hashes: readonly Hash[]): Promise<readonly (UploadRow | undefined)[]> {
    const { uploads } = this.#rows;
    const unknown = sortedUnknown(hashes, uploads);
    if (unknown.length > 0) {
      const { rows } = await this.#wire.send('lockUploads', [this.#key, hashesToSql(unknown)]);
      for (const row of rows) this.#rows.learnUpload(byteaToHex(row.hash), uploadFromSql(row));
      for (const hash of unknown) this.#rows.learnUpload(hash, undefined);
    }
    return hashes.map((hash) => uploads.get(hash)?.current);
  }

  insertUpload(row: UploadRow): void {
    this.#wire.assertUsable();
    this.#rows.insertUpload(row);
  }

  updateUpload(before: UploadRow, after: UploadRow): Awaitable<void> {
    this.#wire.assertUsable();
    if (this.#rows.uploads.has(before.hash)) return this.#rows.changeUpload(before, after);
    return this.#lockUpload(before.hash).then(() => this.#rows.changeUpload(before, after));
  }

  deleteUpload(before: UploadRow): Awaitable<void> {
    this.#wire.assertUsable();
    if (this.#rows.uploads.has(before.hash)) return this.#rows.changeUpload(before, undefined);
    return this.#lockUpload(before.hash).then(() => this.#rows.changeUpload(before, undefined));
  }

  /** The sums begin after the lock is held, so that they see what those before have committed. */
  async lockStored(): Promise<Stored> {
    // This transaction's own writes count too.
    const flushed = this.#flush();
    const { bytes, nodes } = this.#contents.reservedMore;
    const locking = this.#wire.send('lockSpace', [this.#key]);
    const [stored, reserved] = await Promise.all([
      this.#wire.send('sumStored', [this.#key]),
      this.#wire.send('sumReserved', [this.#key]),
      ...[locking, ...flushed],
    ]);
    const published = storedOf(totalsFromSql(stored.rows[0] as SqlRow));
    const [kept] = reserved.rows;
    return {
      bytes: published.bytes + (kept?.bytes as number) + bytes,
      nodes: published.nodes + (kept?.nodes as number) + nodes,
    };
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
    const content = found.rows[0] && contentFromSql(found.rows[0]);
    if (content?.packed === undefined) return content;
    // Its row is not moved from here on, so what is decided by the place of the record stays true.
    const { rows } = await this.#wire.send('lockContent', key);
    return rows[0] && contentFromSql(rows[0]);
  }

  insertContent(row: ContentRow): void {
    this.#wire.assertUsable();
    const { contents } = this.#contents;
    const change = contents.get(row.generation);
    assertInvariant(change === undefined, 'a generation has content once: keys are write-once');
    contents.set(row.generation, { insert: row, isDeleted: false });
  }

  deleteContent(generation: Generation): void {
    this.#wire.assertUsable();
    this.#contents.contents.set(generation, { insert: undefined, isDeleted: true });
  }

  setDiscard(row: DiscardRow): void {
    this.#wire.assertUsable();
    this.#rows.discards.set(row.generation, row);
  }

  removeDiscard(generation: Generation): void {
    this.#wire.assertUsable();
    this.#rows.discards.set(generation, undefined);
  }

  async findDiscards(dueAtOrBefore: number, limit: number): Promise<readonly DiscardRow[]> {
    const { rows } = await this.#findRange('findDiscards', [this.#key, dueAtOrBefore, limit]);
    return rows.map(discardFromSql);
  }

  findCandidates(limit: number, expiredAt: number | null = this.#wire.clock): Promise<readonly NodeRow[]> {
    return this.#findNodeRange('findCandidates', expiredAt, limit);
  }

  get purging(): PurgeVerbs {
    this.#hasFlushed = true;
    return new PostgresPurge(this.#wire, this.#key);
  }

  findClaimed(heldUntilAtOrBefore: number, limit: number): Promise<readonly NodeRow[]> {
    return this.#findNodeRange('findClaimed', heldUntilAtOrBefore, limit);
  }

  findAbandonedWaiting(touchedAtOrBefore: number, limit: number): Promise<readonly NodeRow[]> {
    return this.#findNodeRange('findAbandonedWaiting', touchedAtOrBefore, limit);
  }

  async findAbandonedUploads(keptUntilAtOrBefore: number, limit: number): Promise<readonly UploadRow[]> {
    const found = await this.#findRange('findAbandonedUploads', [this.#key, keptUntilAtOrBefore, limit]);
    return found.rows.map((row) => {
      const upload = uploadFromSql(row);
      this.#rows.learnUpload(upload.hash, upload);
      return this.#rows.uploads.get(upload.hash)?.current ?? upload;
    });
  }

  /** Reads in one trip all that these commits look at, so that their bodies find it here. */
  async prefetch(reads: readonly RootRefReads[]): Promise<void> {
    const hashes = reads.flatMap((each) => each.hashes);
    await Promise.all([
      this.#rootRefs.prefetch(reads),
      this.#lockNodes(sortedUnknown(hashes, this.#rows.nodes)),
    ]);
  }

  /** Grows with every write, so it shows whether a body has changed anything. */
  get changeCount(): number {
    return this.#rows.changeCount + this.#rootRefs.changeCount;
  }

  correctCounters(by: KeptCounters): void {
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

  insertRootRefCommit(
    domain: string,
    commit: RootRefCommit,
    changes: readonly BalanceChange[],
  ): Promise<void> {
    return this.#rootRefs.insertCommit(domain, commit, changes);
  }

  async #findNodeRange(name: NodeRange, at: number | null, limit: number): Promise<NodeRow[]> {
    const { rows } = await this.#findRange(name, [this.#key, at, limit]);
    return rows.map((row) => {
      const node = countedNodeFromSql(row);
      this.#rows.learnNode(node.row.hash, node);
      return this.#rows.nodes.get(node.row.hash)?.current?.row ?? node.row;
    });
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

/** The hashes that `known` does not hold yet, in hash order, once each. */
function sortedUnknown(hashes: readonly Hash[], known: ReadonlyMap<Hash, unknown>): Hash[] {
  const unknown = new Set<Hash>();
  for (const hash of hashes) if (!known.has(hash)) unknown.add(hash);
  return [...unknown].sort();
}

function uploadOf({ rows }: SqlResult): UploadRow | undefined {
  return rows[0] && uploadFromSql(rows[0]);
}
