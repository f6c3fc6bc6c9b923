/** The SDK's door to the disk, `@holdfast/client/node`: folders pushed and pulled, on any runtime that has the modules of Node. */
import {
  type Client,
  type Hash,
  type ProgressReporter,
  PUSH_PARALLEL_MAX_DEFAULT,
  type PullResult,
  type PushResult,
  SILENT_PROGRESS,
} from '@holdfast/client/internal';
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { resolveGivenPath } from './given-path.ts';
import { openSpaceSource, pullToPath } from './pull/pull-to-path.ts';
import { IGNORE_FILE_NAME } from './push/ignore-rules.ts';
import { MemoryState } from './push/memory-state.ts';
import { pushFolder as pushWithState } from './push/push-folder.ts';
import type { LeftOut } from './push/scan-problem.ts';

export { GivenPathError } from './given-path.ts';
export {
  type LeftOut,
  OwnFolderError,
  ScanError,
  type ScanProblem,
  TreeBusyError,
} from './push/scan-problem.ts';
export { findZstd } from './zstd.ts';

export interface PushFolderOptions {
  /** Lease of the root: 60 s to 24 h, clamped by the service; 24 h when left out. */
  readonly leaseDurationMs?: number | undefined;
  /** Patterns of what to leave out, in the syntax of `.gitignore`. They decide before those of files in the tree. */
  readonly ignorePatterns?: readonly string[] | undefined;
  /** Names of pattern files that are honoured in every folder; `['.holdfastignore']` when left out. */
  readonly ignoreFileNames?: readonly string[] | undefined;
  /** Records modification times. A tree with times has another hash; false when left out. */
  readonly recordsMtime?: boolean | undefined;
  /** Leaves sockets, pipes and devices out without a word; false when left out. */
  readonly skipsSpecial?: boolean | undefined;
  /** false: what cannot be stored is left out and told in `leftOut`. true, the default: it is a ScanError, as with `--strict`. */
  readonly isStrict?: boolean | undefined;
  /** Leases every node, also below what is ready, so that nodes whose bytes were lost are uploaded again. */
  readonly check?: boolean | undefined;
  /** Requests at once, at most; 64 when left out. */
  readonly parallelMax?: number | undefined;
  /** How long no request may succeed before the push fails, ms; 5 minutes when left out. */
  readonly patienceMs?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PushedFolder extends PushResult {
  readonly kind: 'file' | 'directory' | 'symlink';
  /** the root included */
  readonly entryCount: number;
  /** of all files and link targets */
  readonly bytes: number;
  /** Entries that could not be stored; empty unless `isStrict` is false. */
  readonly leftOut: readonly LeftOut[];
}

/**
 * Makes the folder, file or link at `path` a tree in the Space, ready and leased, as `holdfast push` does: the same folder has
 * the same root hash. Only what the Space lacks is sent. Every file is read and hashed again by each call; about 200 bytes of
 * memory are needed for each entry.
 *
 * Interrupted in any way, the same call goes on and repeats no finished upload. Throws ScanError (nothing was sent),
 * TreeBusyError, OwnFolderError, GivenPathError, CasError, what the system says of `path`, or the reason of the signal.
 */
export async function pushFolder(
  client: Client,
  path: string,
  options: PushFolderOptions = {},
): Promise<PushedFolder> {
  const state = new MemoryState();
  try {
    const { readCount, commit, balance, snapshot, ...pushed } = await pushWithState({
      client,
      path: resolveGivenPath(path),
      state,
      ignorePatterns: options.ignorePatterns ?? [],
      ignoreFileNames: options.ignoreFileNames ?? [IGNORE_FILE_NAME],
      recordsMtime: options.recordsMtime ?? false,
      skipsSpecial: options.skipsSpecial ?? false,
      isStrict: options.isStrict ?? true,
      leaseDurationMs: options.leaseDurationMs ?? LEASE_DURATION_MS_MAX,
      check: options.check ?? false,
      parallelMax: options.parallelMax ?? PUSH_PARALLEL_MAX_DEFAULT,
      patienceMs: options.patienceMs,
      progress: options.progress ?? SILENT_PROGRESS,
      signal: options.signal,
    });
    return pushed;
  } finally {
    state.close();
  }
}

export interface PullFolderOptions {
  /** Only these paths of the tree, each by its names from the root; everything when left out or empty. */
  readonly paths?: readonly (readonly Uint8Array[])[] | undefined;
  /** Replaces files and links that are in the way; folders never. */
  readonly force?: boolean | undefined;
  /** Each file and folder is on disk before the next step counts on it: slow, and safe against power loss. */
  readonly fsync?: boolean | undefined;
  /** Blocks of zeros become holes; false when left out. */
  readonly sparse?: boolean | undefined;
  /** Requests at once, at most; 32 when left out. */
  readonly parallelMax?: number | undefined;
  /** How long no request may succeed before the pull fails, ms; 5 minutes when left out. */
  readonly patienceMs?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Writes the tree `root` to `path` as `holdfast pull` does: a directory's entries into the folder of that path, which is made
 * when missing, a file or link under the path itself. Every node is verified before a byte of it is written; links are never
 * followed.
 *
 * Interrupted in any way, the same call goes on. Throws PullConflictError (nothing was written), PullTargetError,
 * TreeReadError, GivenPathError, CasError, or the reason of the signal.
 */
export async function pullFolder(
  client: Client,
  root: Hash,
  path: string,
  options: PullFolderOptions = {},
): Promise<PullResult> {
  const { parallelMax, patienceMs, progress, signal, ...pullOptions } = options;
  const source = openSpaceSource(client, { parallelMax, patienceMs, progress, signal });
  const { item, ...result } = await pullToPath(source, root, path, { ...pullOptions, progress, signal });
  return result;
}
