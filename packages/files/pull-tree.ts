/** Pulling a tree to this machine. */
import { mkdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import {
  createPatientSource,
  type Hash,
  type NodeSource,
  openTree,
  type PatientSourceOptions,
  type PullOptions,
  type PullResult,
  PullTargetError,
  pullTree,
  type ReadingClient,
  type TreeItem,
} from '@holdfast/client';
import { resolveGivenPath } from './given-path.ts';
import { digestAtOnce } from './hash-file.ts';
import { explain } from './pull-failure.ts';
import { type FolderTargetOptions, openFolderTarget } from './pull-target.ts';

/** The nodes of a Space, verified by what this runtime hashes fastest with. */
export function openSpaceSource(
  client: ReadingClient,
  options: Omit<PatientSourceOptions, 'digest'> = {},
): NodeSource {
  return createPatientSource(client, { ...options, digest: digestAtOnce });
}

export interface PullToPathOptions extends PullOptions, FolderTargetOptions {}

/**
 * Brings the tree `hash` to `destination`: the folder that gets its entries, or, when it is a file or link, its own path.
 * Missing folders up to there are made. Throws GivenPathError, and what `pullTree` throws.
 */
export async function pullToPath(
  source: NodeSource,
  hash: Hash,
  destination: string,
  options: PullToPathOptions = {},
): Promise<PullResult & { readonly item: TreeItem }> {
  const path = resolveGivenPath(destination);
  const item = await openTree(source).readItem(hash, { signal: options.signal });
  const isFolder = item.kind === 'directory';
  if (!isFolder && (options.paths ?? []).length > 0) {
    throw new PullTargetError(`${hash} is a ${item.kind}: there are no paths in it; leave --range away`);
  }
  const base = isFolder ? path : dirname(path);
  let target: ReturnType<typeof openFolderTarget> | undefined;
  const openTarget = (): ReturnType<typeof openFolderTarget> => {
    target = makeTarget(base, options);
    return target;
  };
  try {
    const name = new TextEncoder().encode(basename(path));
    const rootPath = isFolder ? undefined : { parent: undefined, name };
    return {
      ...(await pullTree(source, item, openTarget, rootPath, { digest: digestAtOnce, ...options })),
      item,
    };
  } finally {
    target?.close();
  }
}

function makeTarget(base: string, options: FolderTargetOptions): ReturnType<typeof openFolderTarget> {
  try {
    mkdirSync(base, { recursive: true });
    return openFolderTarget(base, options);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code === 'EEXIST' || code === 'ENOTDIR') {
      throw new PullTargetError(`${base} is no folder, or below a file; choose another place for the tree`);
    }
    throw explain(error, `${base} cannot be made`);
  }
}
