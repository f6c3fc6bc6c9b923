/** engine/transfer-ports.ts on a data folder's database. The caller holds the folder, so no other process writes. */
import type { Database } from 'bun:sqlite';
import type { Space, SpaceCounters } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { WALK_UNKNOWN } from '../../core/root-ref-walks.ts';
import {
  balanceSum,
  commitSum,
  countersSum,
  DOMAIN_WEIGHTS,
  domainSum,
  historySum,
  isSum,
  looseEdgesSum,
} from '../../core/rows/row-sums.ts';
import { totalUsage } from '../../core/usage-delta.ts';
import { guard, guardNow, storageError } from '../local-failure.ts';
import { usageToSql } from '../rows/codecs.ts';
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
import { parseHistoryKey } from '../transfer-ports.ts';
import { openWriter } from './database.ts';
import { type DeploymentStatements, prepareDeploymentStatements } from './deployment-statements.ts';
import {
  isBalanceSound,
  isCommitSound,
  isDomainSound,
  isHistorySound,
  looseEdgesFromSql,
  requestKey,
  storeSum,
} from './ledger-rows.ts';
import {
  balanceFromSql,
  commitFromSql,
  contentFromSql,
  contentToSql,
  damagedRow,
  hexToBytes,
  historyFromSql,
  joinedContentFromSql,
  nodeFromSql,
  nodeToSql,
  uploadFromSql,
  uploadToSql,
} from './rows.ts';
import { countersSumOf, NOTHING_COUNTED } from './space-counters.ts';
import { spaceNameSum } from './space-directory.ts';
import type { SqlRow } from './statements.ts';
import { copyMarkName } from './store-identity.ts';
import { findUnreachedTables } from './sums/unreached.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

interface DeploymentRowsOptions {
  /** the database file, made and migrated by the engine */
  readonly path: string;
  /** of the engine; its counters and clock are asked, nothing is written through it */
  readonly metadata: MetadataStore;
  /** throws after a write of unknown outcome, because a copy must not continue then */
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
    return guardNow('reading', () => this.#sql.findMark.get(copyMarkName(name))?.value as string | undefined);
  }

  async setMark(name: MarkName, value: string): Promise<void> {
    this.#transact(() => this.#setMark(name, value));
  }

  #setMark(mark: MarkName, value: string): void {
    const name = copyMarkName(mark);
    this.#sql.setMark.run(name, value, storeSum(name, value));
  }

  async removeMark(name: MarkName): Promise<void> {
    this.#transact(() => this.#sql.removeMark.run(copyMarkName(name)));
  }

  async isEmpty(): Promise<boolean> {
    return (await this.listSpaces(undefined, 1)).length === 0;
  }

  async readTotals(): Promise<Totals> {
    const row = guardNow('reading', () => this.#sql.readTotals.get()) as SqlRow;
    return { spaces: row.spaces as number, nodes: row.nodes as number, bytes: row.bytes as number };
  }

  async findUnreached(): Promise<readonly string[]> {
    return guard('reading', () => findUnreachedTables(this.#database));
  }

  async listSpaces(after: string | undefined, limit: number): Promise<readonly ListedSpace[]> {
    const rows = guardNow('reading', () => this.#sql.listSpaces.all(Number(after ?? 0), limit));
    return rows.map((row) => {
      const space = { appId: row.app_id as string, spaceId: row.space_id as string };
      if (!isSum(row.name_sum, spaceNameSum(row.id as number, space)))
        throw damagedRow('the Space', JSON.stringify(space.spaceId));
      return { space, position: String(row.id) };
    });
  }

  async readPage<K extends EntryKind>(page: PageRequest<K>): Promise<readonly Entries[K][]> {
    return guardNow('reading', () => {
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
      this.#makeSpace(space, now);
      const id = this.#findSpaceId(space) as number;
      for (const part of parts) this.#writePart(id, part);
      this.#setMark('unfinished', unfinished);
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
        .all(space, hashBehind(after), limit)
        .map((row): NodeEntry => ({ row: nodeFromSql(row), content: joinedContentFromSql(row, space) })),
    looseEdges: (space, { after, limit }) =>
      this.#sql.looseEdges.all(space, hashBehind(after), limit).map(looseEdgesFromSql),
    uploads: (space, { after, limit }) =>
      this.#sql.uploads.all(space, hashBehind(after), limit).map((row): UploadEntry => {
        const content = this.#sql.findContent.get(row.generation as Uint8Array);
        return {
          row: uploadFromSql(row),
          content: content === null ? undefined : contentFromSql(content),
        };
      }),
    domains: (space, { after, limit }) =>
      whole(this.#sql.domains.all(space, textBehind(after), limit), isDomainSound).map((row) => ({
        domain: row.domain as string,
        revision: row.revision as number,
        historyFloor: Math.max(row.history_floor as number, row.walked_from as number),
      })),
    balances: (space, { domain, after, limit }) => {
      const rows = this.#sql.balances.all(space, domain, hashBehind(after), limit);
      return whole(rows, isBalanceSound).map(balanceFromSql);
    },
    history: (space, { domain, after, limit }) => {
      const { hash, fromRevision } = parseHistoryKey(after);
      const rows = this.#sql.history.all(space, domain, hexToBytes(hash), fromRevision, limit);
      return whole(rows, isHistorySound).map(historyFromSql);
    },
    commits: (space, { domain, after, limit }) => {
      const rows = this.#sql.commits.all(space, domain, Buffer.from(textBehind(after)), limit);
      return whole(rows, isCommitSound).map(commitFromSql);
    },
  };

  #writePart(space: number, part: BatchPart): void {
    const domainId = Number(this.#sql.findDomainId.get(space, part.domain)?.id ?? 0); // 0: of no domain
    switch (part.kind) {
      case 'nodes':
        this.#writeNodes(space, part.entries);
        break;
      case 'looseEdges':
        for (const { hash, count } of part.entries) {
          this.#sql.setLooseEdges.run(space, hexToBytes(hash), count, looseEdgesSum(space, hash, count));
        }
        break;
      case 'uploads':
        for (const entry of part.entries) this.#writeUpload(space, entry);
        break;
      case 'domains':
        for (const { domain: name, revision, historyFloor } of part.entries) {
          const id = this.#sql.insertDomain.get(space, name, revision, historyFloor)?.id as number;
          this.#sql.sealDomain.run(
            id,
            domainSum([id, space, name], {
              ...{
                revision,
                historyFloor,
                commitCount: 0,
                balanceCount: 0,
                walkedFrom: 0,
                walkedUntil: WALK_UNKNOWN,
              },
            }),
          );
        }
        break;
      case 'balances':
        this.#sql.countBalances.run(...countMore(domainId, DOMAIN_WEIGHTS.balanceCount, part));
        for (const { hash, balance, fromRevision } of part.entries) {
          const sum = balanceSum(domainId, hash, balance, fromRevision);
          this.#sql.insertBalance.run(domainId, hexToBytes(hash), balance, fromRevision, sum);
        }
        break;
      case 'history':
        for (const entry of part.entries) {
          const { hash, fromRevision, toRevision, balance, supersededAt } = entry;
          const key = [domainId, hexToBytes(hash), fromRevision, toRevision] as const;
          this.#sql.insertHistory.run(...key, balance, supersededAt, historySum(domainId, hash, entry));
        }
        break;
      case 'commits':
        for (const entry of part.entries) {
          const { requestId, payloadDigest, revision } = entry;
          const sums = [requestKey(domainId, requestId), commitSum(domainId, entry)] as const;
          this.#sql.insertCommit.run(domainId, Buffer.from(requestId), payloadDigest, revision, ...sums);
        }
        this.#sql.countCommits.run(...countMore(domainId, DOMAIN_WEIGHTS.commitCount, part));
        break;
    }
  }

  /** Rows, and what they add to the counters: leases that end after the watermark are counted. */
  #writeNodes(space: number, nodes: readonly NodeEntry[]): void {
    const watermark = this.#sql.findWatermark.get(space)?.lease_watermark as number;
    for (const entry of nodes) this.#writeNode(space, entry);
    const usage = totalUsage(nodes.map(({ row }) => row));
    const leasedCount = nodes.filter(({ row }) => row.leaseExpiresAt > watermark).length;
    this.#sql.addCounters.run(
      ...[space, ...usageToSql(usage), leasedCount, countersSum({ ...usage, leasedCount }, 0)],
    );
  }

  #writeNode(space: number, { row, content }: NodeEntry): void {
    this.#sql.insertNode.run(...nodeToSql(space, row));
    if (content !== undefined) this.#sql.insertContent.run(...contentToSql(space, content));
  }

  #writeUpload(space: number, { row, content }: UploadEntry): void {
    this.#sql.insertUpload.run(...uploadToSql(space, row));
    if (content !== undefined) this.#sql.insertContent.run(...contentToSql(space, content));
  }

  #findSpaceId({ appId, spaceId }: Space): number | undefined {
    return this.#sql.findSpaceId.get(appId, spaceId)?.id as number | undefined;
  }

  #makeSpace(space: Space, now: number): void {
    const made = this.#sql.insertSpace.get(space.appId, space.spaceId, now);
    if (made === null) return;
    const id = made.id as number;
    this.#sql.sealSpace.run(id, spaceNameSum(id, space), countersSumOf(id, NOTHING_COUNTED, now));
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

/** The first key behind another, or of all: an empty one is damage, and is met too. */
const textBehind = (key: string | undefined): string => (key === undefined ? '' : `${key}\0`);
const hashBehind = (key: string | undefined): Uint8Array => hexToBytes(key === undefined ? '' : `${key}00`);
const countMore = (domain: number, weight: number, { entries: { length } }: BatchPart) =>
  [domain, length, weight * length] as const;

/** A copy takes no row that is not as it was written. @throws StoreUnavailable, as damage */
function whole(rows: SqlRow[], isSound: (row: SqlRow) => boolean): SqlRow[] {
  if (!rows.every(isSound)) throw damagedRow('a root ref', 'in one of its domains');
  return rows;
}
