/** Reads of rows by hash within one transaction: each row that is found is locked and remembered. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../core/awaitable.ts';
import type { NodeRow, SpaceKey, UploadRow } from '../../core/model.ts';
import { RowDamaged } from './damage.ts';
import type { RowChanges } from './row-changes.ts';
import { countedNodeFromSql, hashesToSql, looseEdgeFromSql, readNode, uploadFromSql } from './rows.ts';
import type { UploadCount } from './upload-limit.ts';
import type { TransactionWire } from './wire/transaction-wire.ts';
import { byteaToHex, hexToBytea, type SqlResult, type SqlRow } from './wire/wire-messages.ts';

interface LockedRows {
  readonly wire: TransactionWire;
  readonly space: SpaceKey;
  readonly rows: RowChanges;
  readonly uploads: UploadCount;
}

export class RowLocks {
  readonly #wire: TransactionWire;
  readonly #key: SpaceKey;
  readonly #rows: RowChanges;
  readonly #uploads: UploadCount;
  /** the last rows that were asked for */
  #reading: Promise<void> | undefined;

  constructor({ wire, space, rows, uploads }: LockedRows) {
    this.#wire = wire;
    this.#key = space;
    this.#rows = rows;
    this.#uploads = uploads;
  }

  findNode(hash: Hash): Awaitable<NodeRow | undefined> {
    const known = this.#rows.nodes.get(hash);
    return known === undefined ? this.#lockNode(hash) : known.current?.row;
  }

  /** Locks its upload too: if there is no ready row, the body looks for that next. */
  async #lockNode(hash: Hash): Promise<NodeRow | undefined> {
    const key = hexToBytea(hash);
    // The upload first. A publication deletes the upload and makes the row, so a transaction that waited here for a publication finds no
    // upload, and must then find the row.
    const [upload, node] = await Promise.all([
      this.#rows.uploads.has(hash) ? undefined : this.#wire.send('lockUpload', [this.#key, key]),
      this.#wire.send('lockNode', [this.#key, key]),
      this.#rows.isUploadExpected(hash) ? undefined : this.#uploads.countAhead(key),
    ]);
    this.#rows.learnNode(hash, node.rows[0] && countedNodeFromSql(this.#key, node.rows[0]));
    if (upload !== undefined) this.#rows.learnUpload(hash, uploadOf(this.#key, upload));
    return this.#rows.nodes.get(hash)?.current?.row;
  }

  findNodes(hashes: readonly Hash[]): Awaitable<readonly (NodeRow | undefined)[]> {
    const { nodes } = this.#rows;
    const unknown = sortedUnknown(hashes, nodes);
    const aligned = () => hashes.map((hash) => nodes.get(hash)?.current?.row);
    if (unknown.length === 0) return aligned();
    const publishing = this.#findPublishing();
    if (publishing === undefined) {
      const reading = this.#lockUnknown(unknown);
      // Only the caller that asked for these rows gets the error.
      this.#reading = reading.catch(() => undefined);
      return reading.then(aligned);
    }
    return this.#lockNodesAndAbsent(unknown, publishing).then(aligned);
  }

  /** Locks those that are not known yet. */
  lockNodes(hashes: readonly Hash[]): Promise<void> {
    return this.#lockUnknown(sortedUnknown(hashes, this.#rows.nodes));
  }

  async #lockUnknown(hashes: readonly Hash[]): Promise<void> {
    const { rows } = await this.#wire.send('lockNodes', [this.#key, hashesToSql(hashes)]);
    this.#learnNodes(hashes, rows);
  }

  /** Fails for a damaged row once the others are known. */
  #learnNodes(hashes: readonly Hash[], rows: readonly SqlRow[]): void {
    const read = rows.map((row) => readNode(this.#key, row));
    for (const node of read) if (node.isProven) this.#rows.learnNode(node.row.hash, node);
    const damaged = read.filter(({ isProven }) => !isProven).map(({ row }) => row.hash);
    for (const hash of hashes) if (!damaged.includes(hash)) this.#rows.learnNode(hash, undefined);
    const [first] = damaged;
    if (first !== undefined) throw new RowDamaged('nodes', `node ${first}`);
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
    this.#learnNodes(hashes, rows);
    this.#learnLoose(absent);
    this.#assertStillAbsent(appeared);
  }

  /**
   * Locks a hash without a row by a record of its edges, made if there is none, and then looks for its row once more. So two
   * transactions that make a row and an edge to it at the same time never miss each other: the later one waits here, and either
   * finds the other's edges, or finds its row and begins again.
   */
  findLooseEdges(hashes: readonly Hash[]): Awaitable<readonly number[]> {
    this.#wire.assertUsable();
    const { loose, nodes } = this.#rows;
    // A locked row has no loose edges, and no transaction can create some.
    const absent = hashes.filter((hash) => nodes.get(hash)?.stored === undefined);
    const unknown = sortedUnknown(absent, loose);
    const aligned = () => hashes.map((hash) => loose.get(hash)?.current ?? 0);
    if (unknown.length === 0) return aligned();
    const isRead = unknown.every((hash) => nodes.has(hash));
    return (isRead ? this.#lockLoose(unknown) : this.#lockLooseUnread(unknown)).then(aligned);
  }

  /** The same while rows of these hashes are being read: locks those that have none. */
  async #lockLooseUnread(hashes: readonly Hash[]): Promise<void> {
    const keys = hashesToSql(hashes);
    const [absent, appeared] = await Promise.all([
      this.#wire.send('lockAbsent', [this.#key, keys]),
      this.#wire.send('findAppeared', [this.#key, keys]),
      this.#reading,
    ]);
    this.#learnLoose(absent);
    this.#assertStillAbsent(appeared);
    const { loose, nodes } = this.#rows;
    // It had no row when it was read, and one when it was to be locked.
    const isMissed = (hash: Hash) =>
      !loose.has(hash) && nodes.has(hash) && nodes.get(hash)?.stored === undefined;
    if (hashes.some(isMissed)) this.#wire.runAgain('a row appeared where there was none');
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
      const { hash, count } = looseEdgeFromSql(this.#key, row);
      this.#rows.loose.set(hash, { stored: count, current: count, isPlaced: true });
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

  findUpload(hash: Hash): Awaitable<UploadRow | undefined> {
    const known = this.#rows.uploads.get(hash);
    return known === undefined ? this.lockUpload(hash) : known.current;
  }

  async lockUpload(hash: Hash): Promise<UploadRow | undefined> {
    const found = await this.#wire.send('lockUpload', [this.#key, hexToBytea(hash)]);
    this.#rows.learnUpload(hash, uploadOf(this.#key, found));
    return this.#rows.uploads.get(hash)?.current;
  }

  async findUploads(hashes: readonly Hash[]): Promise<readonly (UploadRow | undefined)[]> {
    const { uploads } = this.#rows;
    const unknown = sortedUnknown(hashes, uploads);
    if (unknown.length > 0) {
      const { rows } = await this.#wire.send('lockUploads', [this.#key, hashesToSql(unknown)]);
      for (const row of rows) this.#rows.learnUpload(byteaToHex(row.hash), uploadFromSql(this.#key, row));
      for (const hash of unknown) this.#rows.learnUpload(hash, undefined);
    }
    return hashes.map((hash) => uploads.get(hash)?.current);
  }
}

/** The hashes that `known` does not hold yet, in hash order, once each. */
function sortedUnknown(hashes: readonly Hash[], known: ReadonlyMap<Hash, unknown>): Hash[] {
  const unknown = new Set<Hash>();
  for (const hash of hashes) if (!known.has(hash)) unknown.add(hash);
  return [...unknown].sort();
}

function uploadOf(space: SpaceKey, { rows }: SqlResult): UploadRow | undefined {
  return rows[0] && uploadFromSql(space, rows[0]);
}
