/** Files that come to a door by a stream, stored to be set by an edit. */
import {
  type Client,
  createNodeSource,
  editTree,
  openTree,
  Semaphore,
  type TreeItem,
} from '@holdfast/client/internal';

/** Files that are stored at once; each is on its way with some MiB, of which two took 190 MiB and more. */
const LARGE_AT_ONCE = 1;
const PATH = 'file';

export class StoredValues {
  readonly #client: Client;
  readonly #large = new Semaphore(LARGE_AT_ONCE);

  constructor(client: Client) {
    this.#client = client;
  }

  /** A large one waits for others, so that memory stays bounded. */
  async store(
    bytes: ReadableStream<Uint8Array>,
    { isLarge, leaseDurationMs }: { readonly isLarge: boolean; readonly leaseDurationMs?: number },
  ): Promise<TreeItem> {
    const release = isLarge ? await this.#large.take() : () => undefined;
    const edits = [{ op: 'set', path: PATH, bytes } as const];
    const { root } = await editTree(this.#client, undefined, edits, { leaseDurationMs }).finally(release);
    return openTree(createNodeSource(this.#client)).resolvePath(root, [new TextEncoder().encode(PATH)]);
  }
}
