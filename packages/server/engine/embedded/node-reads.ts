/** Reads of nodes and their content outside transactions. */
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, NodeRow } from '../../core/model.ts';
import { type NodeCache, nodeKey } from './node-cache.ts';
import { contentFromSql, hexToBytes, joinedContentFromSql, nodeFromSql } from './rows.ts';
import type { ReadStatements } from './statements.ts';

interface NodeReadsOptions {
  readonly sql: ReadStatements;
  /** on a connection that keeps no pages: content is read from the disk each time */
  readonly fromDisk: ReadStatements;
  /** undefined when other processes write too */
  readonly cache: NodeCache | undefined;
}

export class NodeReads {
  readonly #options: NodeReadsOptions;

  constructor(options: NodeReadsOptions) {
    this.#options = options;
  }

  findNode(spaceId: number, hash: Hash): NodeRow | undefined {
    const { cache, sql } = this.#options;
    const key = nodeKey(spaceId, hash);
    const known = cache?.find(key);
    if (known !== undefined) return known.node;
    const row = sql.findNode.get(spaceId, hexToBytes(hash));
    if (row === null) return undefined;
    const node = nodeFromSql(row, hash);
    cache?.set(key, { node, object: undefined });
    return node;
  }

  /** Both at one instant: nobody else writes between the two reads, or one statement makes both. */
  findNodeWithContent(
    spaceId: number,
    hash: Hash,
  ): { readonly node: NodeRow; readonly content: ContentRow | undefined } | undefined {
    const { cache, fromDisk } = this.#options;
    if (cache === undefined) return this.#findJoined(spaceId, hash);
    const node = this.findNode(spaceId, hash);
    if (node === undefined) return undefined;
    const key = nodeKey(spaceId, hash);
    const object = cache.find(key)?.object;
    if (object !== undefined) return { node, content: object };
    const row = fromDisk.findContent.get(hexToBytes(node.generation));
    if (row === null || row.space !== spaceId) return { node, content: undefined };
    const content = contentFromSql(row, node.generation);
    if (content.inlineBytes === undefined) cache.set(key, { node, object: content });
    return { node, content };
  }

  #findJoined(spaceId: number, hash: Hash) {
    const row = this.#options.fromDisk.findNodeWithContent.get(spaceId, hexToBytes(hash));
    if (row === null) return undefined;
    return { node: nodeFromSql(row, hash), content: joinedContentFromSql(row, spaceId) };
  }
}
