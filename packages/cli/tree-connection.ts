/** What the commands that read trees share: HASH/path, verified nodes, and failures as one line. */
import {
  explainNodeError,
  formatName,
  type Hash,
  type NodeSource,
  openTree,
  type ProgressJob,
  PullConflictError,
  PullTargetError,
  type TreeItem,
  TreePathError,
  TreeReadError,
} from '@holdfast/client';
import { openSpaceSource } from '@holdfast/files';
import { isHash } from '@holdfast/protocol';
import { InvalidArgumentError } from 'commander';
import { CliError } from './cli-error.ts';
import { type ConnectionFlags, JOB_CLIENT, withClient } from './connection.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from './interruption.ts';
import { type JobContext, type JobFlags, runJob, runShortJob } from './progress/run-job.ts';

export const LOCATION_HELP = 'HASH or HASH/path';

/** A place in a tree as the command line names it. */
export interface TreeLocation {
  readonly root: Hash;
  readonly names: readonly Uint8Array[];
  /** as it was given */
  readonly text: string;
}

/** Slashes at the end and twice in a row count as one, and `.` for the directory it is in: no entry has that name. */
export function parseLocation(text: string): TreeLocation {
  const [root = '', ...names] = text.split('/');
  if (!isHash(root)) {
    throw new InvalidArgumentError(`Write ${LOCATION_HELP}; a hash is 64 lowercase hexadecimal characters.`);
  }
  return { root, names: parseNames(names), text };
}

/** The names of a path within a tree. */
export function parseTreePath(text: string): readonly Uint8Array[] {
  const names = parseNames(text.split('/'));
  if (names.length === 0)
    throw new InvalidArgumentError('A path has at least one name; for the whole tree leave it out.');
  return names;
}

function parseNames(names: readonly string[]): Uint8Array[] {
  return names.filter((name) => name !== '' && name !== '.').map((name) => new TextEncoder().encode(name));
}

export function parseRoot(text: string): Hash {
  const [root = '', ...names] = text.split('/');
  if (isHash(root) && names.length === 0) return root;
  throw new InvalidArgumentError(
    isHash(root)
      ? 'Give a hash alone; that of a path in the tree is what ls --long shows.'
      : 'A hash is 64 lowercase hexadecimal characters.',
  );
}

/** Tries of one request of a command that someone waits for. */
const SHORT_ATTEMPTS_MAX = 4;

/** Does `work` with the verified nodes of the Space; says so when they stay away. Throws CliError for what reading trees throws. */
export async function withSource<T>(
  flags: ConnectionFlags & Pick<JobFlags, 'json'>,
  work: (source: NodeSource) => Promise<T>,
): Promise<T> {
  sayWhenInterrupted(NOTHING_CHANGED);
  const attemptsMax = SHORT_ATTEMPTS_MAX;
  try {
    return await withClient(
      flags,
      (client) => runShortJob(flags, (progress) => work(openSpaceSource(client, { attemptsMax, progress }))),
      JOB_CLIENT,
    );
  } catch (error) {
    throw explainTreeError(error);
  }
}

export interface TreeJob {
  readonly job: ProgressJob;
  readonly subject: string;
  readonly flags: ConnectionFlags & JobFlags;
  /** as the job has it */
  readonly whenInterrupted: string;
}

/** As `withSource`, for a job that takes its time: it has a view, and patience with the network. */
export async function runTreeJob<T>(
  job: TreeJob,
  work: (source: NodeSource, context: JobContext) => Promise<T>,
): Promise<T> {
  try {
    return await withClient(
      job.flags,
      (client) => runJob(job, (context) => work(openSpaceSource(client, context), context)),
      JOB_CLIENT,
    );
  } catch (error) {
    throw explainTreeError(error);
  }
}

/** The CliError for what reading and pulling trees throws; anything else as it is. */
function explainTreeError(error: unknown): unknown {
  const isWhole =
    error instanceof TreeReadError ||
    error instanceof TreePathError ||
    error instanceof PullConflictError ||
    error instanceof PullTargetError;
  if (isWhole) return new CliError(error.message, { cause: error });
  const message = explainNodeError(error);
  return message === undefined ? error : new CliError(message, { cause: error });
}

export function findLocation(source: NodeSource, { root, names }: TreeLocation): Promise<TreeItem> {
  return openTree(source).resolvePath(root, names);
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

/** `name` (or `path`) as text, and as hex where the text does not say it all. */
export function describeName(key: 'name' | 'path' | 'target', bytes: Uint8Array): Record<string, string> {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const isExact = Buffer.from(text).equals(bytes);
  return isExact
    ? { [key]: text }
    : { [key]: formatName(bytes), [`${key}Hex`]: Buffer.from(bytes).toString('hex') };
}
