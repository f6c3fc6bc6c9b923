/**
 * engine/transfer-ports.ts on the database of a data folder, over a connection of its own. The caller holds the folder, so no
 * other process writes.
 */
import type { Database } from 'bun:sqlite';
import type { Space, SpaceCounters } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { totalUsage } from '../../core/usage-delta.ts';
import { parseHistoryKey } from '../entry-keys.ts';
import { storageError } from '../local-failure.ts';
import type {
  Batch,
  BatchPart,
  DeploymentWriter,
  Entries,
  EntryKind,
  ListedSpace,
  MarkName,
  NodeEntry,
  PageRequest,
  Totals,
  UploadEntry,
} from '../transfer-ports.ts';
import { copyMarkName } from './copy-marks.ts';
import { openWriter } from './database.ts';
import { type DeploymentStatements, prepareDeploymentStatements } from './deployment-statements.ts';
import {
  bytesToHex,
  collectableCode,
  contentFromSql,
  hexToBytes,
  joinedContentFromSql,
  nodeFromSql,
  stateCode,
  storageCode,
  storedSizeToSql,
  uploadFromSql,
  uploadVerdictToSql,
} from './rows.ts';
import type { SqlRow } from './statements.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

interface DeploymentRowsOptions {
  /** the database file, made and migrated by the engine */
  readonly path: string;
  /** of the engine; its counters and clock are asked, nothing is written through it */
  readonly metadata: MetadataStore;
  /** throws after a write of unknown outcome: a copy does not go on from there */
  readonly assertSound: () => void;
}

export class SqliteDeploymentRows implements DeploymentWriter {
  readonly #metadata: MetadataStore;
  readonly #assertSound: () => void;
  readonly #database: Database;
  readonly #sql: DeploymentStatements;
  readonly #log: WriteAheadLog;

  constructor({ path, metadata, assertSound }: DeploymentRowsOptions) {
    this.#metadata = metadata;
    this.#assertSound = assertSound;
    this.#database = openWriter(path, undefined);
    this.#sql = prepareDeploymentStatements(this.#database);
    this.#log = new WriteAheadLog(this.#database);
  }

  async findMark(name: MarkName): Promise<string | undefined> {
    return this.#read(() => this.#sql.findMark.get(copyMarkName(name))?.value as string | undefined);
  }

  async setMark(name: MarkName, value: string): Promise<void> {
    this.#transact(() => this.#sql.setMark.run(copyMarkName(name), value));
  }

  async removeMark(name: MarkName): Promise<void> {
    this.#transact(() => this.#sql.removeMark.run(copyMarkName(name)));
  }

  async isEmpty(): Promise<boolean> {
    return (await this.listSpaces(undefined, 1)).length === 0;
  }

  async readTotals(): Promise<Totals> {
    const row = this.#read(() => this.#sql.readTotals.get()) as SqlRow;
    return { spaces: row.spaces as number, nodes: row.nodes as number, bytes: row.bytes as number };
  }

  async listSpaces(after: string | undefined, limit: number): Promise<readonly ListedSpace[]> {
    const rows = this.#read(() => this.#sql.listSpaces.all(Number(after ?? 0), limit));
    return rows.map((row) => ({
      space: { appId: row.app_id as string, spaceId: row.space_id as string },
      position: String(row.id),
    }));
  }

  async readPage<K extends EntryKind>(page: PageRequest<K>): Promise<readonly Entries[K][]> {
    return this.#read(() => {
      const id = this.#findSpaceId(page.space);
      return id === undefined ? [] : (this.#readers[page.kind](id, page) as Entries[K][]);
    });
  }

  async readCounters(space: Space): Promise<SpaceCounters> {
    return this.#metadata.readCounters(space);
  }

  async write({ space, parts }: Batch, unfinished: string): Promise<void> {
    const now = await this.#metadata.readClock();
    this.#transact(() => {
      this.#sql.insertSpace.run(space.appId, space.spaceId, now);
      const id = this.#findSpaceId(space) as number;
      for (const part of parts) this.#writePart(id, part);
      this.#sql.setMark.run(copyMarkName('unfinished'), unfinished);
    });
  }

  close(): void {
    for (const statement of Object.values(this.#sql)) statement.finalize();
    this.#database.close(true);
  }

  readonly #readers: {
    readonly [K in EntryKind]: (space: number, page: PageRequest<EntryKind>) => Entries[K][];
  } = {
    nodes: (space, { after, limit }) =>
      this.#sql.nodes
        .all(space, hexToBytes(after ?? ''), limit)
        .map((row): NodeEntry => ({ row: nodeFromSql(row), content: joinedContentFromSql(row, space) })),
    looseEdges: (space, { after, limit }) =>
      this.#sql.looseEdges
        .all(space, hexToBytes(after ?? ''), limit)
        .map((row) => ({ hash: bytesToHex(row.hash as Uint8Array), count: row.count as number })),
    uploads: (space, { after, limit }) =>
      this.#sql.uploads.all(space, hexToBytes(after ?? ''), limit).map((row): UploadEntry => {
        const content = this.#sql.findContent.get(row.generation as Uint8Array);
        return {
          row: uploadFromSql(row),
          content: content === null ? undefined : contentFromSql(content),
        };
      }),
    domains: (space, { after, limit }) =>
      this.#sql.domains.all(space, after ?? '', limit).map((row) => ({
        domain: row.domain as string,
        revision: row.revision as number,
        historyFloor: row.history_floor as number,
      })),
    balances: (space, { domain, after, limit }) =>
      this.#sql.balances.all(space, domain, hexToBytes(after ?? ''), limit).map((row) => ({
        hash: bytesToHex(row.hash as Uint8Array),
        balance: row.balance as number,
        fromRevision: row.from_revision as number,
      })),
    history: (space, { domain, after, limit }) => {
      const { hash, fromRevision } = parseHistoryKey(after);
      return this.#sql.history.all(space, domain, hexToBytes(hash), fromRevision, limit).map((row) => ({
        hash: bytesToHex(row.hash as Uint8Array),
        fromRevision: row.from_revision as number,
        toRevision: row.to_revision as number,
        balance: row.balance as number,
        supersededAt: row.superseded_at as number,
      }));
    },
    commits: (space, { domain, after, limit }) =>
      this.#sql.commits.all(space, domain, Buffer.from(after ?? ''), limit).map((row) => ({
        requestId: Buffer.from(row.request_id as Uint8Array).toString(),
        payloadDigest: row.payload_digest as Uint8Array,
        revision: row.revision as number,
      })),
  };

  #writePart(space: number, part: BatchPart): void {
    const { domain } = part;
    switch (part.kind) {
      case 'nodes':
        this.#writeNodes(space, part.entries);
        break;
      case 'looseEdges':
        for (const { hash, count } of part.entries) {
          this.#sql.insertLooseEdges.run(space, hexToBytes(hash), count);
        }
        break;
      case 'uploads':
        for (const entry of part.entries) this.#writeUpload(space, entry);
        break;
      case 'domains':
        for (const { domain: name, revision, historyFloor } of part.entries) {
          this.#sql.insertDomain.run(space, name, revision, historyFloor);
        }
        break;
      case 'balances':
        for (const { hash, balance, fromRevision } of part.entries) {
          this.#sql.insertBalance.run(space, domain, hexToBytes(hash), balance, fromRevision);
        }
        break;
      case 'history':
        for (const { hash, fromRevision, toRevision, balance, supersededAt } of part.entries) {
          const key = [hexToBytes(hash), fromRevision, toRevision] as const;
          this.#sql.insertHistory.run(space, domain, ...key, balance, supersededAt);
        }
        break;
      case 'commits':
        for (const { requestId, payloadDigest, revision } of part.entries) {
          this.#sql.insertCommit.run(space, domain, Buffer.from(requestId), payloadDigest, revision);
        }
        this.#sql.countCommits.run(space, domain, part.entries.length);
        break;
    }
  }

  /** Rows, and what they add to the counters: leases that end after the watermark are counted. */
  #writeNodes(space: number, nodes: readonly NodeEntry[]): void {
    const watermark = this.#sql.readWatermark.get(space)?.lease_watermark as number;
    for (const entry of nodes) this.#writeNode(space, entry);
    const usage = totalUsage(nodes.map(({ row }) => row));
    const leasedCount = nodes.filter(({ row }) => row.leaseExpiresAt > watermark).length;
    this.#sql.addCounters.run(
      ...[space, usage.nodeCount, usage.readyContentBytes, usage.readyStoredBytes, usage.waitingBytes],
      ...[usage.notReadyNodeCount, leasedCount],
    );
  }

  #writeNode(space: number, { row, content }: NodeEntry): void {
    this.#sql.insertNode.run(
      ...[space, hexToBytes(row.hash), stateCode(row.state), row.size, row.canonicalSize],
      ...[row.contentType, row.refs, hexToBytes(row.generation), storageCode(row.storage)],
      ...[row.leaseStartedAt, row.leaseExpiresAt, row.childRefCount, row.rootRefCount],
      ...[row.heldDomainCount, row.waitingTouchedAt, row.claimHeldUntil],
      ...[storedSizeToSql(row), collectableCode(row)],
    );
    if (content !== undefined) this.#writeContent(space, content);
  }

  #writeUpload(space: number, { row, content }: UploadEntry): void {
    this.#sql.insertUpload.run(
      ...[space, hexToBytes(row.hash), hexToBytes(row.generation)],
      ...[row.createdAt, row.urlExpiresAt, row.touchedAt, ...uploadVerdictToSql(row)],
    );
    if (content !== undefined) this.#writeContent(space, content);
  }

  #writeContent(space: number, content: NonNullable<NodeEntry['content']>): void {
    const { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt } = content;
    this.#sql.insertContent.run(
      ...[space, hexToBytes(generation), canonicalSize, integrity, inlineBytes ?? null, urlExpiresAt],
    );
  }

  #findSpaceId({ appId, spaceId }: Space): number | undefined {
    return this.#sql.findSpaceId.get(appId, spaceId)?.id as number | undefined;
  }

  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  #transact(work: () => unknown): void {
    this.#assertSound();
    try {
      this.#sql.begin.run();
      work();
      this.#sql.commit.run();
      this.#log.copyBackWhenLong();
    } catch (error) {
      if (this.#database.inTransaction) this.#sql.rollback.run();
      throw storageError(error, 'writing');
    }
  }
}
