/** Shared by the commands that read trees: HASH/path, verified nodes, and failures as one line. */
import {
  type Client,
  explainNodeError,
  type Hash,
  type NodeSource,
  openTree,
  type ProgressReporter,
  PullConflictError,
  PullTargetError,
  type TreeItem,
  TreePathError,
  TreeReadError,
} from '@holdfast/client/internal';
import { ChunkMemory, openSpaceSource } from '@holdfast/files';
import { CliError } from '../cli-error.ts';
import {
  type ConnectionFlags,
  SHORT_ATTEMPTS_MAX,
  withJob,
  withShortJob,
} from '../connection/space-connection.ts';
import type { JobContext, JobOptions } from '../progress/run-job.ts';
import { type LocatedTree, locateTrees, requireReadable, type TreeLocation } from './reference.ts';

/** Does `work` with the verified nodes of the Space and the trees at `locations`. Throws CliError for what reading trees throws. */
export async function withSource<T, const L extends readonly TreeLocation[]>(
  flags: ConnectionFlags,
  locations: L,
  work: (
    source: NodeSource,
    trees: { [K in keyof L]: LocatedTree },
    progress: ProgressReporter,
  ) => Promise<T>,
): Promise<T> {
  await requireReadable(flags, locations);
  try {
    return await withShortJob(flags, async ({ client, patient }, progress) => {
      const trees = await locateTrees(patient, locations, { progress });
      return work(openSpaceSource(client, { attemptsMax: SHORT_ATTEMPTS_MAX, progress }), trees, progress);
    });
  } catch (error) {
    throw explainTreeError(error);
  }
}

/** As `withSource`, for a job that takes its time: it has a view, and patience with the network. */
export async function runTreeJob<T>(
  job: JobOptions & { readonly flags: ConnectionFlags },
  location: TreeLocation,
  work: (source: NodeSource, tree: LocatedTree, context: JobContext) => Promise<T>,
): Promise<T> {
  await requireReadable(job.flags, [location]);
  try {
    return await withJob(job, async ({ client, patient }, context) => {
      const [tree] = await locateTrees(patient, [location] as const, context);
      // The answers of this client are the runtime's: nobody else looks at their pieces.
      return work(openSpaceSource(client, { ...context, memory: new ChunkMemory() }), tree, context);
    });
  } catch (error) {
    throw explainTreeError(error);
  }
}

/** The CliError for what reading and pulling trees throws; anything else as it is. */
export function explainTreeError(error: unknown): unknown {
  const isWhole =
    error instanceof TreeReadError ||
    error instanceof TreePathError ||
    error instanceof PullConflictError ||
    error instanceof PullTargetError;
  if (isWhole) return new CliError(error.message, { cause: error });
  const message = explainNodeError(error);
  return message === undefined ? error : new CliError(message, { cause: error });
}

export async function findLocation(
  source: NodeSource,
  { root, names, text }: LocatedTree,
): Promise<TreeItem> {
  try {
    return await openTree(source).resolvePath(root, names);
  } catch (error) {
    if (!(error instanceof TreePathError)) throw error;
    // The name that was given says more than the hash it stands for.
    const [given = root] = text.split('/');
    const { message, reason, position } = error;
    throw new TreePathError(
      message.replace(root, () => given),
      reason,
      position,
    );
  }
}

/** The hash at a location. The root of a whole tree is not read, because the caller may want to find its damage. */
export async function findHash(source: NodeSource, tree: LocatedTree): Promise<Hash> {
  return tree.names.length === 0 ? tree.root : (await findLocation(source, tree)).hash;
}

/** The hashes at `locations`. `client` tries again by itself. Throws CatalogError, CasError, and what reading trees throws. */
export async function locateHashes<L extends readonly TreeLocation[]>(
  client: Client,
  locations: L,
  { progress, signal }: Pick<JobContext, 'progress'> & { readonly signal?: AbortSignal },
): Promise<{ [K in keyof L]: Hash }> {
  const trees = await locateTrees(client, locations, { signal, progress });
  const source = openSpaceSource(client, { patienceMs: 0, signal });
  const hashes: Hash[] = [];
  try {
    for (const tree of trees) hashes.push(await findHash(source, tree));
  } catch (error) {
    throw explainTreeError(error);
  }
  return hashes as { [K in keyof L]: Hash };
}

/** An entry as `--json` shows it. Names that are no UTF-8 have their bytes too. */
export function describeItem(item: TreeItem): Record<string, unknown> {
  const { kind, hash, bytes, entryCount, isExecutable, mtimeNs } = item;
  return {
    kind,
    hash,
    bytes,
    ...(kind === 'directory' ? { entryCount } : {}),
    ...(kind === 'file' ? { isExecutable } : {}),
    ...(mtimeNs === undefined ? {} : { mtimeNs: String(mtimeNs) }),
  };
}
