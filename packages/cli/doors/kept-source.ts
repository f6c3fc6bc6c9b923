/** Nodes that a door read a short while ago: each request looks its path up from the root. */
import { type Client, createNodeSource, Kept, type NodeSource } from '@holdfast/client/internal';

type StoredNode = Awaited<ReturnType<NodeSource['readNode']>>;

const KEPT_BYTES_MAX = 8 * 1024 * 1024;
/** Folders and small files; a chunk of a larger file is read once. */
const NODE_BYTES_MAX = 64 * 1024;
const NODE_OVERHEAD_BYTES = 1024;

export function createKeptSource(client: Pick<Client, 'getNode'>): NodeSource {
  const source = createNodeSource(client);
  const kept = new Kept<StoredNode>(KEPT_BYTES_MAX);
  return {
    async readNode(hash, options) {
      const known = kept.find(hash);
      if (known !== undefined) return known;
      const node = await source.readNode(hash, options);
      const { content } = node;
      if (content.length > NODE_BYTES_MAX) return node;
      // A view would keep the whole answer that it came in.
      const own = { ...node, content: new Uint8Array(content) };
      kept.keep(hash, own, NODE_OVERHEAD_BYTES + own.content.length + own.refs.length * 64);
      return own;
    },
  };
}
