/** Pulling a tree to this machine. */
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
} from '@holdfast/client/internal';
import { resolveGivenPath } from '../given-path.ts';
import { createCollectingDigest, digestAtOnce } from '../node-digest.ts';
import { isSpecial, makeBase } from './base-folder.ts';
import { explain } from './failure.ts';
import { type FolderTargetOptions, openFolderTarget } from './folder-target.ts';

/** The nodes of a Space, verified by what this runtime hashes fastest with, in bounded memory. */
export function openSpaceSource(
  client: ReadingClient,
  options: Omit<PatientSourceOptions, 'digest'> = {},
): NodeSource {
  return createPatientSource(client, { ...options, digest: createCollectingDigest() });
}

const KIND_NAMES: Readonly<Record<TreeItem['kind'], string>> = {
  file: 'file',
  directory: 'folder',
  symlink: 'link',
};

export interface PullToPathOptions extends PullOptions, FolderTargetOptions {}

/**
 * Brings the tree (its hash, or what reading told of it) to `destination`: the folder that gets its entries, or, when it is a file or link, its own path.
 * Missing folders up to there are made. Throws GivenPathError, and what `pullTree` throws.
 */
export async function pullToPath(
  source: NodeSource,
  tree: Hash | TreeItem,
  destination: string,
  options: PullToPathOptions = {},
): Promise<PullResult & { readonly item: TreeItem }> {
  const path = resolveGivenPath(destination, { isMadeFolder: true });
  const item =
    typeof tree === 'string' ? await openTree(source).readItem(tree, { signal: options.signal }) : tree;
  const { hash } = item;
  const isFolder = item.kind === 'directory';
  if (!isFolder && /\/\.?$/.test(destination)) {
    throw new PullTargetError(
      `${destination} names a folder, but ${hash} is a ${KIND_NAMES[item.kind]}; give the path it is to have, such as ${destination.replace(/\.$/, '')}NAME`,
    );
  }
  if (!isFolder && (options.paths ?? []).length > 0) {
    throw new PullTargetError(
      `${hash} is a ${KIND_NAMES[item.kind]}: there are no paths in it; leave out --range`,
    );
  }
  if (!isFolder && isSpecial(path)) {
    throw new PullTargetError(
      `${path} is a pipe, socket or device, or leads to one: it is never replaced, and nothing was written; choose another path`,
    );
  }
  const base = isFolder ? path : dirname(path);
  let target: ReturnType<typeof openFolderTarget> | undefined;
  const prepare = (): ReturnType<typeof openFolderTarget> => {
    makeBase(base, {
      isNamed: isFolder,
      force: options.force === true,
      fsync: options.fsync === true,
    });
    target = openTarget(base, options);
    return target;
  };
  try {
    const name = new TextEncoder().encode(basename(path));
    const rootPath = isFolder ? undefined : { parent: undefined, name };
    return {
      ...(await pullTree(source, item, prepare, rootPath, { digest: digestAtOnce, ...options })),
      item,
    };
  } finally {
    await target?.close();
  }
}

function openTarget(base: string, options: FolderTargetOptions): ReturnType<typeof openFolderTarget> {
  try {
    return openFolderTarget(base, options);
  } catch (error) {
    throw explain(error, `${base} cannot be opened`);
  }
}
