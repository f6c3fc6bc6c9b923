/** The row verbs of core/ports.ts SpaceTransaction on SQLite. All of them are synchronous, which the port allows. */
import type { SQLQueryBindings } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import type {
  ContentRow,
  DiscardRow,
  Generation,
  NodeRow,
  RootRefCommit,
  Space,
  UploadRow,
} from '../../core/model.ts';
import { isCollectable } from '../../core/node-row.ts';
import type { DueRows, NewRow, OldRow, RowChange, SpaceTransaction } from '../../core/ports.ts';
import type { Stored } from '../../core/quotas.ts';
import { discardSum, nodeSumChange } from '../../core/rows/row-sums.ts';
import type { PurgeVerbs, SpaceHoldings } from '../../core/tenancy-ports.ts';
import { NO_HOLDINGS, usageDelta } from '../../core/usage-delta.ts';
import { AS_READ, assertWrittenOnce, insertPublished, LooseEdges, NewNodes } from './new-nodes.ts';
import { nodeKey } from './node-cache.ts';
import { SqliteNodeMending } from './node-mending.ts';
import { SqlitePackRows } from './packs/pack-rows.ts';
import { SqlitePurge } from './purge.ts';
import { RootRefLedger } from './root-ref-ledger.ts';
import { guardsOf, isCountChangeOnly, isLeaseChangeOnly, uploadChange } from './row-changes.ts';
import {
  collectableCode,
  contentFromSql,
  contentToSql,
  discardFromSql,
  hexToBytes,
  isDiscardSound,
  isUploadSound,
  nodeFromSql,
  soundNodes,
  stateCode,
  storageCode,
  storedSizeToSql,
  uploadFromSql,
  uploadToSql,
} from './rows.ts';
import { NO_SPACE } from './statements.ts';
import type { WriteScope } from './write-scope.ts';
import { countActive } from './write-scope.ts';

/** The statement of each kind. */
const DUE = {
  candidates: 'findCandidates',
  claimed: 'findClaimed',
  waiting: 'findAbandonedWaiting',
  uploads: 'findAbandonedUploads',
  discards: 'findDiscards',
} as const;

export class SqliteSpaceTransaction implements SpaceTransaction {
  readonly now: number;
  readonly #scope: WriteScope;
  readonly #space: Space;
  #rootRefLedger: RootRefLedger | undefined;
  #packRows: SqlitePackRows | undefined;
  readonly #looseEdges: LooseEdges;
  readonly #newNodes: NewNodes;
  #id: number | undefined;
  #keyedHash: Hash | undefined;
  #key = '';

  constructor(scope: WriteScope, space: Space) {
    this.now = scope.now;
    this.#scope = scope;
    this.#looseEdges = new LooseEdges(scope);
    this.#newNodes = new NewNodes(scope);
    this.#space = space;
    this.#id = scope.ledger.findSpace(space);
  }

  findNode(hash: Hash): NodeRow | undefined {
    if (this.#id === undefined) return undefined;
    this.#scope.assertUsable();
    const { rows, sql } = this.#scope;
    const key = this.#keyOf(this.#id, hash);
    const known = rows.find(key);
    if (known !== undefined) return known ?? undefined;
    const row = this.#scope.find(sql.findNode, this.#id, hexToBytes(hash));
    if (row === undefined) return rows.learnAbsent(key);
    const node = nodeFromSql(row, hash);
    rows.learn(key, node);
    return node;
  }

  findNodes(hashes: readonly Hash[]): readonly (NodeRow | undefined)[] {
    if (this.#id === undefined) return hashes.map(() => undefined);
    const absent = this.#scope.learnAbsent(this.#id, hashes);
    return hashes.map((hash) => (absent.has(hash) ? undefined : this.findNode(hash)));
  }

  // The tuples are read by index: destructuring would run an iterator for each row.
  insert(...row: NewRow): void {
    if (row[0] === 'node') this.#insertNode(row[1]);
    else if (row[0] === 'upload') this.#insertUpload(row[1]);
    else if (row[0] === 'content') this.#insertContent(row[1]);
    else if (row[0] === 'published') insertPublished(this.#scope, this.#write(), this.packs, row[1]);
    else if (row[0] === 'pack') this.packs.insert(row[1]);
    else this.#setDiscard(row[1]);
  }

  update(...change: RowChange): void {
    if (change[0] === 'node') this.#updateNode(change[1], change[2]);
    else if (change[0] === 'upload') this.#updateUpload(change[1], change[2]);
    else this.packs.update(change[1], change[2]);
  }

  delete(...row: OldRow): void {
    if (row[0] === 'node') this.#deleteNode(row[1]);
    else if (row[0] === 'upload') this.#deleteUpload(row[1]);
    else if (row[0] === 'pack') this.packs.delete(row[1]);
    else if (row[0] === 'content') this.packs.deleteContent(row[1]);
    else this.#scope.write(this.#scope.sql.deleteDiscard, hexToBytes(row[1]), this.#write());
  }

  #insertNode(row: NodeRow): void {
    const id = this.#write();
    this.#newNodes.insert(id, row);
    this.#changed(id, row.hash, undefined, row);
  }

  #updateNode(before: NodeRow, after: NodeRow): void {
    const { sql } = this.#scope;
    if (this.#id !== undefined && this.#newNodes.update(before, after)) {
      this.#changed(this.#id, before.hash, before, after);
      return;
    }
    const hash = hexToBytes(before.hash);
    if (this.#id !== undefined && isLeaseChangeOnly(before, after)) {
      this.#changeNode(
        sql.updateNodeLease,
        ...[this.#id, hash, after.leaseStartedAt, after.leaseExpiresAt],
        ...[before.leaseExpiresAt, stateCode(before.state), nodeSumChange(before, after)],
      );
      this.#changed(this.#id, before.hash, before, after);
      return;
    }
    const id = this.#write();
    if (isCountChangeOnly(before, after)) {
      this.#changeNode(
        sql.updateNodeCounts,
        ...[id, hash, after.childRefCount, after.rootRefCount, after.heldDomainCount],
        ...[before.childRefCount, before.rootRefCount, nodeSumChange(before, after)],
      );
    } else {
      this.#updateWholeNode(id, hash, before, after);
    }
    this.#changed(id, before.hash, before, after);
  }

  #updateWholeNode(id: number, hash: Uint8Array, before: NodeRow, after: NodeRow): void {
    this.#changeNode(
      this.#scope.sql.updateNode,
      ...[id, hash, stateCode(after.state), hexToBytes(after.generation), storageCode(after.storage)],
      ...[after.leaseStartedAt, after.leaseExpiresAt, after.childRefCount, after.rootRefCount],
      ...[after.heldDomainCount, after.waitingTouchedAt, after.claimHeldUntil, collectableCode(after)],
      ...[storedSizeToSql(after), ...guardsOf(before), nodeSumChange(before, after)],
    );
  }

  /** A row that no longer matches what was read has become wrong on the disk meanwhile. @throws StoreUnavailable, marked as damage */
  #changeNode(
    statement: WriteScope['sql']['updateNode'],
    ...[id, hash, ...values]: [id: number, hash: Uint8Array, ...SQLQueryBindings[]]
  ): void {
    if (this.#scope.write(statement, id, hash, ...values) === 1) return;
    const row = this.#scope.find(this.#scope.sql.findNode, id, hash);
    if (row !== undefined) nodeFromSql(row);
    this.#scope.failRule(AS_READ, statement);
  }

  #deleteNode(before: NodeRow): void {
    this.#newNodes.flush();
    const id = this.#write();
    const key = [id, hexToBytes(before.hash)] as const;
    this.#changeNode(this.#scope.sql.deleteNode, ...key, ...guardsOf(before));
    this.#changed(id, before.hash, before, undefined);
  }

  get mending(): SqliteNodeMending {
    this.#newNodes.flush();
    const insert = (stands: NodeRow, row: NodeRow): void => {
      const id = this.#write();
      this.#newNodes.insert(id, row);
      this.#changed(id, row.hash, { ...row, leaseExpiresAt: stands.leaseExpiresAt }, row);
    };
    return new SqliteNodeMending({ scope: this.#scope, space: this.#id, insert });
  }

  findLooseEdges(hashes: readonly Hash[]): readonly number[] {
    return this.#looseEdges.find(this.#id, hashes);
  }

  setLooseEdges(hash: Hash, count: number): void {
    this.#looseEdges.set(this.#write(), hash, count);
  }

  findUpload(hash: Hash): UploadRow | undefined {
    if (this.#id === undefined) return undefined;
    const row = this.#scope.find(this.#scope.sql.findUpload, this.#id, hexToBytes(hash));
    return row && uploadFromSql(row, hash);
  }

  #insertUpload(row: UploadRow): void {
    this.#scope.writeOne(AS_READ, this.#scope.sql.insertUpload, ...uploadToSql(this.#write(), row));
    this.#countUpload(row.urlExpiresAt, 1);
  }

  #updateUpload(before: UploadRow, after: UploadRow): void {
    const id = this.#write();
    if (after.urlExpiresAt !== before.urlExpiresAt) this.#scope.recountUploads(id);
    this.#scope.writeOne(AS_READ, ...uploadChange(this.#scope.sql, id, before, after));
  }

  #deleteUpload(before: UploadRow): void {
    const { sql } = this.#scope;
    const generation = hexToBytes(before.generation);
    this.#scope.writeOne(AS_READ, sql.deleteUpload, this.#write(), hexToBytes(before.hash), generation);
    this.#countUpload(before.urlExpiresAt, -1);
  }

  #countUpload(urlExpiresAt: number, by: 1 | -1): void {
    const id = this.#write();
    const { activeUploads } = this.#scope;
    activeUploads.change(id, urlExpiresAt, by);
    this.#scope.onUndo(() => activeUploads.forget(id));
  }

  lockStored(): Stored {
    return this.#id === undefined ? { bytes: 0, nodes: 0 } : this.#scope.readStored(this.#id);
  }

  lockHoldings(): SpaceHoldings {
    return this.#id === undefined ? NO_HOLDINGS : this.#scope.readHoldings(this.#id);
  }

  countActiveUploads(atMost: number): number {
    return this.#id === undefined ? 0 : countActive(this.#scope, this.#id, atMost);
  }

  /** Called only when content is in doubt, so SQLite's pages in memory are dropped first: the disk has to answer. */
  findContent(generation: Generation): ContentRow | undefined {
    this.#scope.letGoOfPages();
    const row = this.#scope.findRecord(hexToBytes(generation));
    return row === undefined || row.space !== this.#id ? undefined : contentFromSql(row, generation);
  }

  #insertContent(row: ContentRow): void {
    const { generation, packed } = row;
    const id = this.#write();
    const changes =
      packed === undefined
        ? this.#scope.write(this.#scope.sql.insertContent, ...contentToSql(id, row))
        : this.packs.insertContent(row, packed);
    assertWrittenOnce(changes, generation);
  }

  #setDiscard(row: DiscardRow): void {
    const id = this.#write();
    const values = [hexToBytes(row.generation), id, row.dueAt, row.urlExpiresAt] as const;
    this.#scope.write(this.#scope.sql.setDiscard, ...values, discardSum(id, row));
  }

  due<K extends keyof DueRows>(kind: K, at: number | undefined, limit: number): readonly DueRows[K][] {
    if (this.#id === undefined) return [];
    this.#newNodes.flush();
    return this.#due(kind, this.#id, at ?? this.now, limit) as readonly DueRows[K][];
  }

  #due(kind: keyof DueRows, id: number, at: number, limit: number): readonly DueRows[keyof DueRows][] {
    if (kind === 'packs') return this.packs.findDue(at, limit);
    const { [DUE[kind]]: statement } = this.#scope.sql;
    const rows = this.#scope.findAll(statement, id, at, limit);
    if (kind === 'discards') return rows.filter(isDiscardSound).map((row) => discardFromSql(row));
    if (kind === 'uploads') return rows.filter(isUploadSound).map((row) => uploadFromSql(row));
    if (kind !== 'candidates') return rows.flatMap(soundNodes);
    return rows.map((row) => nodeFromSql(row)).filter((node) => isCollectable(node) || this.#setRight(node));
  }

  get packs(): SqlitePackRows {
    this.#packRows ??= new SqlitePackRows(this.#scope, {
      findId: () => this.#id,
      write: () => this.#write(),
      findUpload: (hash) => this.findUpload(hash),
    });
    return this.#packRows;
  }

  get purging(): PurgeVerbs {
    this.#newNodes.flush();
    return new SqlitePurge(this.#scope, this.#write());
  }

  /** The flag of a row is wrong, and the row is not: only then is it found where it does not belong. */
  #setRight({ hash }: NodeRow): false {
    this.#scope.write(this.#scope.sql.clearCollectable, this.#write(), hexToBytes(hash));
    return false;
  }

  correctCounters(by: KeptCounters): void {
    this.#scope.count(this.#write(), by);
  }

  findRootRefCommit(domain: string, requestId: string): RootRefCommit | undefined {
    return this.#id === undefined ? undefined : this.#rootRefs.findCommit(this.#id, domain, requestId);
  }

  findRevision(domain: string): number {
    return this.#rootRefs.findRevision(this.#id ?? NO_SPACE, domain);
  }

  findBalances(domain: string, hashes: readonly Hash[]): readonly number[] {
    if (this.#id === undefined) return hashes.map(() => 0);
    return this.#rootRefs.findBalances(this.#id, domain, hashes);
  }

  noteWalk(domain: string): void {
    this.#rootRefs.noteWalk(this.#id ?? NO_SPACE, domain);
  }

  insertRootRefCommit(
    domain: string,
    commit: RootRefCommit,
    changes: readonly { readonly hash: Hash; readonly before: number; readonly after: number }[],
  ): void {
    this.#rootRefs.insertCommit(this.#write(), domain, commit, changes);
  }

  get #rootRefs(): RootRefLedger {
    this.#rootRefLedger ??= new RootRefLedger(this.#scope);
    return this.#rootRefLedger;
  }

  /** The Space's id, which its first write makes. */
  #write(): number {
    this.#scope.beginWriting();
    if (this.#id === undefined) {
      this.#id = this.#scope.ledger.insertSpace(this.#space, this.now);
      this.#scope.onUndo(() => this.#scope.ledger.forgetSpace(this.#space));
    }
    return this.#id;
  }

  /** A row is nearly always written just after it was found. */
  #keyOf(id: number, hash: Hash): string {
    if (hash !== this.#keyedHash) {
      this.#keyedHash = hash;
      this.#key = nodeKey(id, hash);
    }
    return this.#key;
  }

  /** Called after the statement of a row: changes what depends on the row. */
  #changed(id: number, hash: Hash, before: NodeRow | undefined, after: NodeRow | undefined): void {
    const key = this.#keyOf(id, hash);
    this.#scope.rows.write(key, after ?? null);
    this.#scope.onUndo(() => this.#scope.rows.undo(key));
    const leasedCount = this.#leasedDelta(id, before?.leaseExpiresAt ?? 0, after?.leaseExpiresAt ?? 0);
    const isSameState = before?.state === after?.state;
    if (leasedCount === 0 && isSameState) return;
    this.#scope.count(id, { ...usageDelta(before, after), leasedCount });
  }

  /** A renewal of an unexpired lease stays on the same side of the watermark, so it touches no counter. */
  #leasedDelta(id: number, before: number, after: number): number {
    if (before === after) return 0;
    const watermark = this.#scope.ledger.readWatermark(id);
    return Number(after > watermark) - Number(before > watermark);
  }
}
