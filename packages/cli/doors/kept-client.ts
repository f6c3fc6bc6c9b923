/**
 * A client that remembers folders and lists of snapshots which it read or stored: every request looks its key up from the root, and every
 * commit reads what the one before wrote. Small files are kept only where a bound for them is given: its door then asks the server for
 * the head before it answers, so that nobody gets one while the server is away.
 */
import {
  type Bulk,
  CHUNK_CONTENT_TYPE,
  type Client,
  FILE_CONTENT_TYPE,
  type FolderKeeper,
  type Hash,
  Kept,
  type NodeParts,
  type ParsedNode,
  type TreeItem,
  weighNode,
} from '@holdfast/client/internal';

/** Of an entry, beside its value. */
const ENTRY_BYTES = 256;

interface Place {
  readonly start: number;
  readonly length: number;
}

export class KeptBytes {
  readonly #bytesMax: number;
  #block: Uint8Array | undefined;
  /** where the next value begins */
  #at = 0;
  /** in the order of the block, from `#at` on: the oldest is first */
  readonly #places = new Map<string, Place>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** A copy: the block is written over while an answer is sent. */
  find(key: string): Uint8Array | undefined {
    const place = this.#places.get(key);
    return place && new Uint8Array(this.#blockOf().subarray(place.start, place.start + place.length));
  }

  /** Copies `value`, in place of the oldest. Of a key that is there nothing changes. */
  keep(key: string, value: Uint8Array): void {
    const room = value.length + ENTRY_BYTES;
    if (room > this.#bytesMax || this.#places.has(key)) return;
    if (this.#at + room > this.#bytesMax) {
      this.#dropUntil(this.#bytesMax);
      this.#at = 0;
    }
    this.#dropUntil(this.#at + room);
    this.#blockOf().set(value, this.#at);
    this.#places.set(key, { start: this.#at, length: value.length });
    this.#at += room;
  }

  /** Drops what begins between `#at` and `end`. */
  #dropUntil(end: number): void {
    for (const [key, { start }] of this.#places) {
      if (start < this.#at || start >= end) return;
      this.#places.delete(key);
    }
  }

  #blockOf(): Uint8Array {
    this.#block ??= new Uint8Array(this.#bytesMax);
    return this.#block;
  }
}

type StoredNode = Awaited<ReturnType<Client['getNode']>>;
type BulkNode = ReturnType<Bulk['readNodes']> extends AsyncGenerator<infer Node> ? Node : never;

export interface KeptClient extends Client, FolderKeeper {
  /** The content of a small file that was read or stored lately, if it is as long as its folder says. */
  findFile(item: Pick<TreeItem, 'hash' | 'bytes'>): Uint8Array | undefined;
}

export function createKeptClient(client: Client, keptBytesMax: number, filesBytesMax = 0): KeptClient {
  const kept = new Kept<StoredNode>(keptBytesMax);
  const files = new KeptBytes(filesBytesMax);
  /** on their way: many ask for one folder at once */
  const coming = new Map<Hash, Promise<StoredNode>>();
  let readFiles = 0;
  const keep = (hash: Hash, node: NodeParts, isRead: boolean): void => {
    const { contentType, refs, content } = node;
    if (contentType === CHUNK_CONTENT_TYPE) return;
    const isFile = contentType === FILE_CONTENT_TYPE;
    // Larger files would leave no room for others.
    if (isFile && (filesBytesMax === 0 || content.length > 64 * 1024)) return;
    // One of eight files that are read is kept, so that a client that reads more than fits does not evict each before its turn.
    if (isFile && isRead && ++readFiles % 8 > 0) return;
    if (isFile) {
      files.keep(hash, content);
      return;
    }
    // A view would keep the whole answer that it came in.
    const own = new Uint8Array(content);
    const metadata = { hash, contentType, refs: [...refs], size: own.length };
    kept.keep(hash, { metadata, content: own }, weighNode(node));
  };

  async function* readNodes(
    ...[hashes, options]: Parameters<Bulk['readNodes']>
  ): AsyncGenerator<BulkNode, void, undefined> {
    const [only] = hashes;
    const known = only !== undefined && hashes.length === 1 ? kept.find(only) : undefined;
    if (only !== undefined && known !== undefined) {
      const { contentType, refs } = known.metadata;
      return yield {
        hash: only,
        contentType,
        refs,
        content: known.content,
        memory: undefined,
        storedBytes: known.content.length,
      };
    }
    for await (const node of client.bulk.readNodes(hashes, options)) {
      keep(node.hash, node, true);
      yield node;
    }
  }

  return {
    ...client,
    findFile({ hash, bytes }) {
      const content = files.find(hash);
      return content?.length === bytes ? content : undefined;
    },
    // Folders that are looked into again and again are not parsed each time.
    parsedFolders: new Kept<ParsedNode>(16 * 1024 * 1024),
    bulk: {
      ...client.bulk,
      get isOffered() {
        return client.bulk.isOffered;
      },
      readNodes,
    },
    async getNode(hash, options) {
      const known = kept.find(hash) ?? coming.get(hash);
      if (known !== undefined) return known;
      const reading = client.getNode(hash, options).finally(() => coming.delete(hash));
      coming.set(hash, reading);
      const node = await reading;
      keep(hash, { ...node.metadata, content: node.content }, true);
      return node;
    },
    async putNode(node, options) {
      const result = await client.putNode(node, options);
      const { contentType, refs = [], content } = node;
      if (content instanceof Uint8Array) keep(result.hash, { contentType, refs, content }, false);
      return result;
    },
  };
}
