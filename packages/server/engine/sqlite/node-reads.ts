/** Reads of nodes and their content outside transactions. */
import type { Database } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, NodeRow } from '../../core/model.ts';
import { RowDamaged } from '../../core/store-failure.ts';
import { CACHE_REQUESTS } from '../../metrics/server-metrics.ts';
import { findAbsent } from './absent-nodes.ts';
import { letGoOfPages, openReader } from './database.ts';
import { type ContentPlace, type NodeCache, nodeKey } from './node-cache.ts';
import { contentFromSql, hexToBytes, joinedContentFromSql, nodeFromSql } from './rows.ts';
import { endReading, finalize, prepareReads, type ReadStatements } from './statements.ts';

/**
 * The connection that reads content, from the disk each time, so that damage is found at once and not when a cache forgets.
 * Reads of one turn of the event loop share one transaction and its pages, because a transaction for each, and reading the same
 * inner pages again, costs more than the content. Nothing is kept from one turn to the next.
 *
 * Reads still see every acknowledged commit, because the transaction ends before a commit is acknowledged. If other processes
 * write too, every read has a transaction of its own.
 */
export class DiskReads {
  readonly #database: Database;
  readonly #sql: ReadStatements;
  readonly #isShared: boolean;
  #isOpen = false;

  constructor(path: string, isShared: boolean) {
    this.#isShared = isShared;
    this.#database = openReader(path, isShared ? 0 : 1024 * 1024);
    this.#sql = prepareReads(this.#database);
  }

  /** Use the result in this turn of the event loop. */
  get sql(): ReadStatements {
    if (!this.#isOpen && !this.#isShared) this.#begin();
    return this.#sql;
  }

  /** Ends the shared transaction, so that the next read uses the disk again. */
  endTurn(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    endReading(this.#database, this.#sql);
    letGoOfPages(this.#database);
  }

  close(): void {
    this.endTurn();
    finalize(this.#sql);
    this.#database.close(true);
  }

  #begin(): void {
    this.#sql.beginReading.run();
    this.#isOpen = true;
    setImmediate(this.#turned);
  }

  readonly #turned = (): void => this.endTurn();
}

interface NodeReadsOptions {
  readonly sql: ReadStatements;
  readonly disk: DiskReads;
  /** undefined when other processes write too */
  readonly cache: NodeCache | undefined;
  /** the last commit that a read may have seen by now */
  readonly lastCommit: () => number;
}

const NO_HASHES: ReadonlySet<Hash> = new Set();
const HITS = CACHE_REQUESTS.with({ cache: 'nodes', result: 'hit' });
const MISSES = CACHE_REQUESTS.with({ cache: 'nodes', result: 'miss' });

export class NodeReads {
  readonly #options: NodeReadsOptions;

  constructor(options: NodeReadsOptions) {
    this.#options = options;
  }

  findNode(spaceId: number, hash: Hash): NodeRow | undefined {
    const { cache, lastCommit } = this.#options;
    const key = nodeKey(spaceId, hash);
    const known = cache?.find(key);
    if (known !== undefined) {
      HITS.add();
      return known.node;
    }
    const node = this.#readNode(spaceId, hash);
    if (node !== undefined) cache?.set(key, { node, place: undefined, readAt: lastCommit() });
    return node;
  }

  #readNode(spaceId: number, hash: Hash): NodeRow | undefined {
    MISSES.add();
    const row = this.#options.sql.findNode.get(spaceId, hexToBytes(hash));
    return row === null ? undefined : nodeFromSql(row, hash);
  }

  /** Both at one instant. If the content is gone, the node has changed since, and one statement reads both again. */
  findNodeWithContent(
    spaceId: number,
    hash: Hash,
  ): { readonly node: NodeRow; readonly content: ContentRow | undefined } | undefined {
    const { cache, lastCommit } = this.#options;
    if (cache === undefined) return this.#findJoined(spaceId, hash);
    const key = nodeKey(spaceId, hash);
    const known = cache.find(key);
    if (known !== undefined) HITS.add();
    const node = known?.node ?? this.#readNode(spaceId, hash);
    if (node === undefined) return undefined;
    let place = known?.place;
    if (place === undefined || (place.packed !== undefined && place.moves !== cache.moves)) {
      place = this.#readPlace(cache, spaceId, node);
      cache.set(key, { node, place, readAt: known?.readAt ?? lastCommit() });
    }
    const content = place && this.#readContent(node, place);
    if (content !== undefined) return { node, content };
    cache.delete(key);
    this.#options.disk.endTurn();
    return this.#findJoined(spaceId, hash);
  }

  /** Aligned with `hashes`. */
  findNodesAndContent(spaceId: number, hashes: readonly Hash[]) {
    const { cache, sql } = this.#options;
    const unknown = hashes.filter((hash) => cache?.find(nodeKey(spaceId, hash)) === undefined);
    const [first = ''] = unknown;
    const find = (space: number, some: readonly Uint8Array[]) => sql.findKnownNodes.all(space, ...some);
    // Either a push asks for hashes that are nearly all absent, or a pull for nodes that are all there.
    const isPush = unknown.length > 0 && sql.hasNode.get(spaceId, hexToBytes(first)) === null;
    const absent = isPush ? findAbsent(find, spaceId, unknown) : NO_HASHES;
    MISSES.add(absent.size);
    return hashes.map((hash) => (absent.has(hash) ? undefined : this.#findNodeAndContent(spaceId, hash)));
  }

  /** Content whose record is damaged is as good as gone, and its node is there all the same. */
  #findNodeAndContent(spaceId: number, hash: Hash): ReturnType<NodeReads['findNodeWithContent']> {
    try {
      return this.findNodeWithContent(spaceId, hash);
    } catch (error) {
      if (!(error instanceof RowDamaged)) throw error;
      const node = this.findNode(spaceId, hash);
      return node && { node, content: undefined };
    }
  }

  #readPlace(cache: NodeCache, spaceId: number, node: NodeRow): ContentPlace | undefined {
    const generation = hexToBytes(node.generation);
    const row = this.#options.sql.findContentPlace.get(generation);
    if (row === null || row.space !== spaceId) return undefined;
    const { canonicalSize, urlExpiresAt, integrity, packed } = contentFromSql(row, node.generation);
    const { moves } = cache;
    return { id: row.id as number, generation, canonicalSize, urlExpiresAt, integrity, packed, moves };
  }

  /** `undefined`: the record is gone. */
  #readContent({ generation, storage }: NodeRow, place: ContentPlace): ContentRow | undefined {
    const { canonicalSize, integrity, packed, urlExpiresAt } = place;
    // Trusts the node's own field and does not look for bytes: they may be lost, and may come back.
    if (storage !== 'inline') {
      return { generation, canonicalSize, integrity, inlineBytes: undefined, packed, urlExpiresAt };
    }
    const row = this.#options.disk.sql.findInlineBytes.get(place.id, place.generation);
    if (row === null) return undefined;
    // NULL is damage: without inline bytes the content is looked for as an object, and found lost.
    const inlineBytes = (row.inline_bytes as Uint8Array | null) ?? undefined;
    return { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt };
  }

  #findJoined(spaceId: number, hash: Hash) {
    const row = this.#options.disk.sql.findNodeWithContent.get(spaceId, hexToBytes(hash));
    if (row === null) return undefined;
    return { node: nodeFromSql(row, hash), content: joinedContentFromSql(row, spaceId) };
  }
}
