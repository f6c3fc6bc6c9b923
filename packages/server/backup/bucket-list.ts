/**
 * The layout of a bucket's backup. The manifest names the list, and the list names the files. Everything that a list names is durable
 * before the manifest is. The name of a file has the digest of its bytes, so an interrupted backup goes on where it was.
 *
 *     BUCKET                                     the manifest
 *     lists/SEQUENCE.bucket                      the objects, by the parts of their keys
 *     objects/<part>/<Space>/<generation>.<sha256>
 *     incoming/                                  objects that are being read
 */
import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findPrivateFile } from '../deployment/private-file.ts';
import { ServeError } from '../errors.ts';

const FORMAT = 1;

/** Keys are spread over as many parts: one is looked at after the other, so that memory does not grow with the bucket. */
export const PARTS: readonly string[] = Array.from({ length: 256 }, (_, part) =>
  part.toString(16).padStart(2, '0'),
);

export interface BucketEntry {
  /** part/Space/generation */
  readonly path: string;
  /** hex */
  readonly sha256: string;
  readonly size: number;
  /** ms; when a backup first missed it in the bucket; 0: it is there */
  readonly goneAt: number;
}

export interface BucketManifest {
  readonly format: number;
  readonly sequence: number;
  /** of the deployment that the bucket belongs to */
  readonly storeId: string;
  /** ms */
  readonly createdAt: number;
  readonly nodes: number;
  readonly bytes: number;
  /** of the list, hex */
  readonly sha256: string;
}

export class BucketFolder {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  get manifestPath(): string {
    return join(this.root, 'BUCKET');
  }

  get incoming(): string {
    return join(this.root, 'incoming');
  }

  get lists(): string {
    return join(this.root, 'lists');
  }

  listPath(sequence: number): string {
    return join(this.lists, `${sequence}.bucket`);
  }

  folderOf(part: string): string {
    return join(this.root, 'objects', part);
  }

  fileOf({ path, sha256 }: Pick<BucketEntry, 'path' | 'sha256'>): string {
    return join(this.root, 'objects', `${path}.${sha256}`);
  }

  /** `undefined` when no backup of a bucket was ever finished here. @throws ServeError */
  async findManifest(): Promise<BucketManifest | undefined> {
    const bytes = await findPrivateFile(this.manifestPath);
    if (bytes === undefined) return undefined;
    try {
      const manifest = JSON.parse(Buffer.from(bytes).toString()) as BucketManifest;
      if (manifest.format === FORMAT) return manifest;
    } catch {
      // Said below.
    }
    throw new ServeError(
      `${this.manifestPath} is damaged, or of a newer Holdfast: use that version, or a new folder`,
    );
  }
}

export const makeBucketManifest = (parts: Omit<BucketManifest, 'format'>): BucketManifest => ({
  format: FORMAT,
  ...parts,
});

export const formatEntry = ({ path, sha256, size, goneAt }: BucketEntry): string =>
  `${path} ${sha256} ${size} ${goneAt}\n`;

const ENTRY = /^([0-9a-f]{2}\/[0-9a-f]{32}\/[0-9a-f]{32}) ([0-9a-f]{64}) (\d{1,16}) (\d{1,16})$/;

/** A list, part by part in their order. */
export class BucketListReader {
  readonly #lines: AsyncIterator<string>;
  readonly #hasher = new Bun.CryptoHasher('sha256');
  #ahead: BucketEntry | undefined;

  /** @throws ServeError */
  constructor(path: string) {
    if (!existsSync(path))
      throw new ServeError(`the list ${path} is missing: make a new backup in another folder`);
    const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  /** The entries of the part; those of parts before it are passed over. @throws ServeError */
  async take(part: string): Promise<readonly BucketEntry[]> {
    const entries: BucketEntry[] = [];
    for (;;) {
      this.#ahead ??= await this.#read();
      if (this.#ahead === undefined || this.#ahead.path.slice(0, 2) > part) return entries;
      if (this.#ahead.path.startsWith(part)) entries.push(this.#ahead);
      this.#ahead = undefined;
    }
  }

  /** Of all that was read. */
  digest(): string {
    return this.#hasher.digest('hex');
  }

  async #read(): Promise<BucketEntry | undefined> {
    const { value, done } = await this.#lines.next();
    if (done === true) return undefined;
    const [, path, sha256, size, goneAt] = ENTRY.exec(value) ?? [];
    if (path === undefined || sha256 === undefined) {
      throw new ServeError('the list of the backup is damaged: make a new backup in another folder');
    }
    this.#hasher.update(`${value}\n`);
    return { path, sha256, size: Number(size), goneAt: Number(goneAt) };
  }
}
