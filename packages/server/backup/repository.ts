/**
 * The layout of a backup's folder, and its manifest. Everything that the manifest names is durable before the manifest is, and a new
 * manifest replaces the former in one step. So an interrupted backup leaves the former one good.
 *
 *     BACKUP                            the manifest
 *     UNFINISHED                        a backup is being made, or was interrupted
 *     databases/NAME/SEQUENCE.pages     the pages that changed until that backup
 *     databases/NAME/SEQUENCE.map       where each page of the database lies
 *     lists/SEQUENCE.objects            the objects, with their sizes
 *     objects/<two hex digits>/<generation>
 *     incoming/                         objects that are being copied
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { findPrivateFile, replacePrivateFile } from '../deployment/private-file.ts';
import { ServeError } from '../errors.ts';

const FORMAT = 1;

/** Pages that one backup wrote. */
export interface PackEntry {
  readonly sequence: number;
  readonly pages: number;
  /** how many of them are the newest of their place */
  readonly live: number;
}

interface FileEntry {
  readonly sequence: number;
  readonly sha256: string;
}

export interface DatabaseEntry {
  readonly name: string;
  readonly pageBytes: number;
  readonly pageCount: number;
  readonly map: FileEntry;
  readonly packs: readonly PackEntry[];
}

interface ObjectsEntry {
  readonly count: number;
  readonly bytes: number;
  readonly list: FileEntry;
}

export interface Manifest {
  readonly format: number;
  /** Of which deployment it is; undefined: it was never served, or an earlier version made the backup. */
  readonly deployment?: string | undefined;
  /** grows by one with each backup into the folder */
  readonly sequence: number;
  /** ms */
  readonly createdAt: number;
  readonly nodes: number;
  /** what a restore writes */
  readonly bytes: number;
  /** of the checksums of pages, hex: tenants choose what lies in a page, and must not know it */
  readonly seed: string;
  readonly databases: readonly DatabaseEntry[];
  /** null: the bytes are in a bucket */
  readonly objects: ObjectsEntry | null;
}

export class Repository {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  get manifestPath(): string {
    return join(this.root, 'BACKUP');
  }

  get unfinishedPath(): string {
    return join(this.root, 'UNFINISHED');
  }

  get incoming(): string {
    return join(this.root, 'incoming');
  }

  get lists(): string {
    return join(this.root, 'lists');
  }

  get databases(): string {
    return join(this.root, 'databases');
  }

  folderOf(database: string): string {
    return join(this.databases, database);
  }

  packPath(database: string, sequence: number): string {
    return join(this.folderOf(database), `${sequence}.pages`);
  }

  mapPath(database: string, sequence: number): string {
    return join(this.folderOf(database), `${sequence}.map`);
  }

  listPath(sequence: number): string {
    return join(this.lists, `${sequence}.objects`);
  }

  /** `undefined` when no backup was ever finished here. @throws ServeError when the manifest is damaged or of a newer version */
  async findManifest(): Promise<Manifest | undefined> {
    const bytes = await findPrivateFile(this.manifestPath);
    return bytes && parseManifest(bytes, this.manifestPath);
  }

  /** Durable when it resolves. */
  async replaceManifest(manifest: Manifest): Promise<void> {
    const sha256 = digestOf(Buffer.from(JSON.stringify(manifest)));
    await replacePrivateFile(this.manifestPath, Buffer.from(`${JSON.stringify({ manifest, sha256 })}\n`));
  }
}

export const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

function parseManifest(bytes: Uint8Array, path: string): Manifest {
  let parsed: { manifest: Manifest; sha256: string };
  try {
    parsed = JSON.parse(Buffer.from(bytes).toString());
  } catch {
    throw damaged(path);
  }
  const { manifest, sha256 } = parsed ?? {};
  if (manifest === undefined || digestOf(Buffer.from(JSON.stringify(manifest))) !== sha256)
    throw damaged(path);
  if (manifest.format === FORMAT) return manifest;
  throw new ServeError(
    `${path} was written by a newer Holdfast (format ${manifest.format}): use that version, or another folder`,
  );
}

const damaged = (path: string): ServeError =>
  new ServeError(
    `the backup's list ${path} is damaged: restore that file, or make a new backup in another folder`,
  );

export const makeManifest = (parts: Omit<Manifest, 'format'>): Manifest => ({ format: FORMAT, ...parts });
