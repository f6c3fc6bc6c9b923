/**
 * The layout of the content folder:
 *
 *     STORE                         the store's id: proves that this is the store and it is there
 *     STORE.new                     the same until the rows know it
 *     incoming/<generation>.<process token>.<n>   an upload on its way, or the intent of one that was sealed
 *     objects/<last two hex digits>/<generation>  one object, never changed
 *
 * All 256 folders are made together with the store, so a missing folder means that the store is not healthy.
 */
import { join } from 'node:path';
import type { Generation } from '../../core/model.ts';
import { codeOf } from '../../error-code.ts';
import type { Files } from './files.ts';

/** Stands for the Space when records are looked for by a file name, which does not tell it: a generation is unique without it. */
export const ANY_SPACE = '';

const SHARD_DIGITS = 2;
const STAGED_NAME = /^([0-9a-f]{32})\.((\d+)-[0-9a-f]+)\.\d+$/;

export class ObjectLayout {
  readonly root: string;
  readonly marker: string;
  readonly draft: string;
  readonly incoming: string;
  readonly objects: string;

  constructor(root: string) {
    this.root = root;
    this.marker = join(root, 'STORE');
    this.draft = join(root, 'STORE.new');
    this.incoming = join(root, 'incoming');
    this.objects = join(root, 'objects');
  }

  shardOf(generation: Generation): string {
    return join(this.objects, generation.slice(-SHARD_DIGITS));
  }

  objectOf(generation: Generation): string {
    return join(this.shardOf(generation), generation);
  }

  shards(): string[] {
    return Array.from({ length: 16 ** SHARD_DIGITS }, (_, index) =>
      join(this.objects, index.toString(16).padStart(SHARD_DIGITS, '0')),
    );
  }

  stagedPath(generation: Generation, processToken: string, counter: number): string {
    return join(this.incoming, `${generation}.${processToken}.${counter}`);
  }
}

export interface StagedName {
  readonly generation: Generation;
  /** pid and a random part: identifies one run of a process */
  readonly processToken: string;
  readonly pid: number;
}

/** `undefined` for a name that this store did not make. */
export function parseStagedName(name: string): StagedName | undefined {
  const match = STAGED_NAME.exec(name);
  if (match === null) return undefined;
  return {
    generation: match[1] as string,
    processToken: match[2] as string,
    pid: Number(match[3]),
  };
}

/** The store's id in the marker, or its draft, at `path`; undefined if there is no file. Rejects with the disk's error. */
export async function readMarker(files: Files, path: string): Promise<string | undefined> {
  try {
    return (await files.readText(path)).trim();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
