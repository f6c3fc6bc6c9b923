/** The folders of a Space for one edit: each part is read and parsed once, with one request where the server has Bulk. */
import type { Hash } from '@holdfast/protocol';
import { type AloneReader, getAlone } from '../../get-alone.ts';
import type { CallOptions } from '../../operations.ts';
import type { NodeParts } from '../format/tree-format.ts';
import {
  type DirectoryPart,
  type ExpectedDirectoryPart,
  readDirectoryPart,
} from '../read/directory-parts.ts';
import type { FolderKeeper, NodeSource } from '../read/node-source.ts';

export class RememberedParts implements NodeSource {
  readonly parsedFolders: FolderKeeper['parsedFolders'];
  readonly #client: AloneReader;
  readonly #options: CallOptions;
  readonly #parts = new Map<Hash, Promise<DirectoryPart>>();
  #active = 0;

  constructor(client: AloneReader & FolderKeeper, options: CallOptions) {
    this.parsedFolders = client.parsedFolders;
    this.#client = client;
    this.#options = options;
  }

  read(hash: Hash, expected: ExpectedDirectoryPart): Promise<DirectoryPart> {
    const known = this.#parts.get(hash);
    if (known !== undefined) return known;
    const reading = readDirectoryPart(this, hash, expected, this.#options);
    this.#parts.set(hash, reading);
    reading.catch(() => this.#parts.delete(hash));
    return reading;
  }

  async readNode(hash: Hash, { signal }: CallOptions = {}): Promise<NodeParts> {
    this.#active += 1;
    try {
      // Calls of this very moment count too.
      await undefined;
      if (this.#active === 1) return await getAlone(this.#client, hash, { signal });
      const { metadata, content } = await this.#client.getNode(hash, { signal });
      return { contentType: metadata.contentType, refs: metadata.refs, content };
    } finally {
      this.#active -= 1;
    }
  }
}
