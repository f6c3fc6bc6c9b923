/**
 * A client that remembers folders and lists of snapshots which it read or stored: every request looks its key up from the root, and every
 * commit reads what the one before wrote. Values are always asked for, so that nobody gets one while the server is away.
 */
import {
  type Bulk,
  CHUNK_CONTENT_TYPE,
  type Client,
  FILE_CONTENT_TYPE,
  type FolderKeeper,
  type Hash,
  Kept,
  type ParsedNode,
} from '@holdfast/client/internal';

type StoredNode = Awaited<ReturnType<Client['getNode']>>;
type BulkNode = ReturnType<Bulk['readNodes']> extends AsyncGenerator<infer Node> ? Node : never;

/** Memory beside the content, and of each ref. */
const NODE_OVERHEAD_BYTES = 512;
const REF_OVERHEAD_BYTES = 96;
/** Folders that are looked into again and again are not parsed each time. */
const PARSED_BYTES_MAX = 16 * 1024 * 1024;

export function createKeptClient(client: Client, keptBytesMax: number): Client & FolderKeeper {
  const kept = new Kept<StoredNode>(keptBytesMax);
  /** on their way: many ask for one folder at once */
  const coming = new Map<Hash, Promise<StoredNode>>();
  const keep = (hash: Hash, contentType: string, refs: readonly Hash[], content: Uint8Array): void => {
    if (contentType === FILE_CONTENT_TYPE || contentType === CHUNK_CONTENT_TYPE) return;
    // A view would keep the whole answer that it came in.
    const own = new Uint8Array(content);
    const metadata = { hash, contentType, refs: [...refs], size: own.length };
    const weight = NODE_OVERHEAD_BYTES + own.length + refs.length * REF_OVERHEAD_BYTES;
    kept.keep(hash, { metadata, content: own }, weight);
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
      keep(node.hash, node.contentType, node.refs, node.content);
      yield node;
    }
  }

  return {
    ...client,
    parsedFolders: new Kept<ParsedNode>(PARSED_BYTES_MAX),
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
      keep(hash, node.metadata.contentType, node.metadata.refs, node.content);
      return node;
    },
    async putNode(node, options) {
      const result = await client.putNode(node, options);
      if (node.content instanceof Uint8Array)
        keep(result.hash, node.contentType, node.refs ?? [], node.content);
      return result;
    },
  };
}
