/** Pushes a path: scans it, pushes what is missing, begins again if something changed meanwhile, and commits at the end. */
import {
  CHUNK_BYTES_MIN,
  type Client,
  type EarlyCounts,
  EarlyNodes,
  type ProgressCounters,
  type ProgressReporter,
  type ProgressTotals,
  type PushPlan,
  type PushResult,
  planPush,
  pushTree,
  type Snapshot,
  SourceChangedError,
  startLeaseKeeper,
} from '@holdfast/client/push';
import { type Hash, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import { displayName, toByteString } from '../byte-names.ts';
import { ResidentMemory } from '../resident-memory.ts';
import type { FolderState } from './folder-state.ts';
import { FolderSupply } from './folder-supply.ts';
import { IGNORE_FILE_NAME, IgnoreRules } from './ignore-rules.ts';
import {
  type CommitOptions,
  commitRootRef,
  findBalance,
  type RootRefCommit,
  settleEarlierCommit,
} from './root-ref-commit.ts';
import { type LeftOut, ScanError, TreeBusyError } from './scan-problem.ts';
import { type ScannedRoot, type ScanOptions, scanTree } from './scan-tree.ts';
import type { SnapshotCommit, SnapshotTarget } from './snapshot-commit.ts';
import { SourceTree } from './source-tree.ts';
import { Survey } from './survey.ts';

/** The reporter of each round in turn, over one that must only ever grow. */
export class RoundProgress {
  readonly #progress: ProgressReporter;
  /** what all rounds together have told */
  #told = { files: 0, bytes: 0 };
  #rounds = 0;

  constructor(progress: ProgressReporter) {
    this.#progress = progress;
  }

  /** Call once for every round. */
  startRound(): ProgressReporter {
    this.#rounds += 1;
    if (this.#rounds === 1) return { ...this.#progress, count: (more) => this.#countFirst(more) };
    const counted = { files: 0, bytes: 0 };
    let scanned: ProgressTotals = {};
    return {
      ...this.#progress,
      count: (more) => {
        counted.files += more.files ?? 0;
        counted.bytes += more.bytes ?? 0;
        this.#countBeyond(counted, more);
      },
      // The totals of the round before stand until the tree is known again.
      expect: (totals) => {
        scanned = { ...scanned, ...totals };
      },
      phase: (phase) => {
        if (phase !== 'scan') this.#expect(scanned);
        this.#progress.phase(phase);
      },
    };
  }

  #countFirst(more: Partial<ProgressCounters>): void {
    this.#told.files += more.files ?? 0;
    this.#told.bytes += more.bytes ?? 0;
    this.#progress.count(more);
  }

  #countBeyond(counted: { readonly files: number; readonly bytes: number }, more: Partial<ProgressCounters>) {
    const files = Math.max(0, counted.files - this.#told.files);
    const bytes = Math.max(0, counted.bytes - this.#told.bytes);
    this.#told.files += files;
    this.#told.bytes += bytes;
    const { deduplicatedBytes = 0, ...rest } = more;
    this.#progress.count({
      ...rest,
      files,
      bytes,
      deduplicatedBytes: Math.min(deduplicatedBytes, bytes),
    });
  }

  #expect({ files, bytes }: ProgressTotals): void {
    this.#progress.expect({
      files: files === undefined ? undefined : Math.max(files, this.#told.files),
      bytes: bytes === undefined ? undefined : Math.max(bytes, this.#told.bytes),
    });
  }
}

export interface PushFolderOptions {
  /** One that does not try again by itself (`retry: { attemptsMax: 1 }`): the push does. */
  readonly client: Client;
  /** absolute */
  readonly path: string;
  readonly state: FolderState;
  /** Texts of pattern files from outside the tree. */
  readonly ignorePatterns: readonly string[];
  /** Names of pattern files that are honoured in every folder. */
  readonly ignoreFileNames: readonly string[];
  readonly recordsMtime: boolean;
  readonly skipsSpecial: boolean;
  /** true: an entry that cannot be stored ends the push before anything is sent; false: it is left out, and told in the result. */
  readonly isStrict: boolean;
  readonly leaseDurationMs: number;
  readonly check: boolean;
  readonly parallelMax: number;
  /** How long no request may succeed, ms; the engine's default when left out. */
  readonly patienceMs?: number | undefined;
  /** Commit a root ref, remembered under this scope while it is not answered. */
  readonly rootRefScope?: string | undefined;
  /** List the tree under a name. */
  readonly snapshot?: SnapshotTarget | undefined;
  readonly progress: ProgressReporter;
  readonly signal?: AbortSignal | undefined;
}

export interface PushedFolder extends PushResult {
  readonly kind: ScannedRoot['kind'];
  readonly entryCount: number;
  readonly bytes: number;
  /** entries that had to be read here */
  readonly readCount: number;
  /** Undefined without a root ref, and when the root had one already. */
  readonly commit: RootRefCommit | undefined;
  /** The balance that the root had already, so that none was added. */
  readonly balance: number | undefined;
  readonly snapshot: Snapshot | undefined;
  readonly leftOut: readonly LeftOut[];
}

export interface PlannedFolder extends PushPlan {
  readonly leftOut: readonly LeftOut[];
}

/** How often one entry may change while the tree is pushed: each time the tree is taken up from the start. */
const CHANGES_PER_ENTRY_MAX = 4;
/** The push ends after this many rounds, because a tree that changes in each round would keep it forever. */
const ROUNDS_MAX = 100;
const BUSY = 'it changed each time it was read';

/**
 * Makes the tree at `path` ready and leased, and keeps it by a root ref or a snapshot where that is asked for. Throws ScanError,
 * TreeBusyError, CatalogError, CasError, or the reason of the signal; the same call then takes it up where it stopped.
 */
export async function pushFolder(options: PushFolderOptions): Promise<PushedFolder> {
  const tree = new SourceTree(toByteString(options.path));
  try {
    return await pushHeld(tree, options);
  } finally {
    tree.close();
  }
}

async function pushHeld(tree: SourceTree, options: PushFolderOptions): Promise<PushedFolder> {
  /** how often each entry changed; what changed once is read again */
  const changes = new Map<string, number>();
  /** entries that are left out because they changed too often */
  const excluded = new Map<string, string>();
  const rounds = new RoundProgress(options.progress);
  const { snapshot, client, state, progress, signal, patienceMs } = options;
  let listing: SnapshotCommit | undefined;
  if (snapshot !== undefined) {
    const { prepareSnapshot } = await import('./snapshot-commit.ts');
    listing = await prepareSnapshot({ client, state, target: snapshot, progress, signal, patienceMs });
  }
  for (let round = 1; ; round += 1) {
    const roundOptions = { ...options, progress: rounds.startRound() };
    try {
      const scan = describeScan(tree, roundOptions, new Set(changes.keys()), excluded);
      const scanned = await scanAndSend(roundOptions, scan);
      const pushed = await pushScanned(tree, roundOptions, scanned, listing);
      tellPassedOver(scanned, options.progress);
      return pushed;
    } catch (error) {
      if (!(error instanceof SourceChangedError)) throw error;
      const count = (changes.get(error.source) ?? 0) + 1;
      changes.set(error.source, count);
      const isTooOften = count === CHANGES_PER_ENTRY_MAX || round > 20;
      const mayBeLeftOut = !options.isStrict && error.source !== displayName(tree.rootPath);
      if (isTooOften && mayBeLeftOut && round < ROUNDS_MAX) excluded.set(error.source, BUSY);
      else if (count >= CHANGES_PER_ENTRY_MAX || round === ROUNDS_MAX) {
        const message = `${error.source} keeps changing while it is pushed: stop what writes to it, or leave it out with ${IGNORE_FILE_NAME}`;
        throw new TreeBusyError(message, { cause: error });
      }
      options.progress.warn(`${error.source} changed while it was pushed; it is read again`);
    }
  }
}

/** Finds what `pushFolder` would send, without changing anything on the server. */
export async function planFolder(options: PushFolderOptions): Promise<PlannedFolder> {
  const { client, progress, signal, parallelMax, patienceMs } = options;
  const tree = new SourceTree(toByteString(options.path));
  try {
    const scanned = await scanTree(describeScan(tree, options, new Set()));
    tellPassedOver(scanned, progress);
    const supply = new FolderSupply(tree, scanned, options.state);
    const plan = await planPush(client, supply, { progress, signal, parallelMax, patienceMs });
    return { ...plan, leftOut: scanned.leftOut };
  } finally {
    tree.close();
  }
}

function describeScan(
  tree: SourceTree,
  options: PushFolderOptions,
  distrusted: ReadonlySet<string>,
  excluded?: ReadonlyMap<string, string>,
): ScanOptions {
  const { state, ignoreFileNames, recordsMtime, skipsSpecial, isStrict, progress, signal } = options;
  return {
    root: toByteString(options.path),
    rules: IgnoreRules.from(options.ignorePatterns),
    ...{ tree, state, ignoreFileNames, recordsMtime, skipsSpecial, isStrict },
    ...{ distrusted, excluded, progress, signal },
  };
}

function tellPassedOver({ passedOver }: ScannedRoot, progress: ProgressReporter): void {
  for (const [path, kind] of passedOver) progress.warn(`${path} is passed over: it is ${kind}`);
}

interface ScannedAndSent extends ScannedRoot {
  /** what was sent while the tree was read */
  readonly early: EarlyCounts;
}

/** Sends what is read while the rest is being read. */
async function scanAndSend(options: PushFolderOptions, scan: ScanOptions): Promise<ScannedAndSent> {
  const { client, leaseDurationMs, patienceMs, progress, signal } = options;
  const survey = new Survey(scan);
  const memory = new ResidentMemory();
  const early = new EarlyNodes({
    client,
    leaseDurationMs,
    beforeSending: () => survey.make(),
    patienceMs,
    progress,
    signal,
  });
  try {
    const scanned = await scanTree({
      ...scan,
      survey,
      takeNode: (hash, canonical, content) => {
        // The memory of chunks and of files that long is used again, so they leave no garbage.
        memory.passed(canonical.length > CHUNK_BYTES_MIN ? 0 : canonical.length);
        return early.add(hash, canonical, content);
      },
    });
    return { ...scanned, early: await early.finish(scanned.hash) };
  } catch (error) {
    if (!(error instanceof ScanError) || !early.hasBegun) throw error;
    // All could be stored when the survey looked.
    const message = `${error.message}; some files were sent meanwhile, and are kept under their leases`;
    throw new TreeBusyError(message, { cause: error });
  } finally {
    await early.end();
  }
}

async function pushScanned(
  tree: SourceTree,
  options: PushFolderOptions,
  scanned: ScannedAndSent,
  listing: SnapshotCommit | undefined,
): Promise<PushedFolder> {
  const { client, state, progress, signal, rootRefScope } = options;
  const { leaseDurationMs, check, parallelMax, patienceMs } = options;
  const supply = new FolderSupply(tree, scanned, state);
  const commitOptions: CommitOptions | undefined =
    rootRefScope === undefined
      ? undefined
      : { client, state, scope: rootRefScope, progress, signal, patienceMs };
  if (commitOptions !== undefined) await settleEarlierCommit(scanned.hash, commitOptions);
  const pushed = await pushTree(client, supply, {
    leaseDurationMs,
    check,
    parallelMax,
    patienceMs,
    progress,
    signal,
    early: scanned.early,
  });
  const kept = await keepLeased(scanned.hash, options, async () => {
    const balance = commitOptions && (await findBalance(scanned.hash, commitOptions));
    const commit =
      commitOptions === undefined || balance !== undefined
        ? undefined
        : await commitRootRef(scanned.hash, commitOptions);
    return { balance, commit, snapshot: await listing?.commit(scanned.hash, scanned.bytes) };
  });
  const { kind, entryCount, bytes, readCount, leftOut } = scanned;
  return { ...pushed, kind, entryCount, bytes, readCount, leftOut, ...kept };
}

/** Commits may take many tries: the root is leased until it is held by them. */
async function keepLeased<T>(
  root: Hash,
  { client, leaseDurationMs, progress, rootRefScope, snapshot }: PushFolderOptions,
  commit: () => Promise<T>,
): Promise<T> {
  if (rootRefScope === undefined && snapshot === undefined) return commit();
  progress.phase('commit');
  const keeper = startLeaseKeeper({ client, leaseDurationMs });
  keeper.add(root, { safeUntil: Date.now() + Math.max(leaseDurationMs, LEASE_DURATION_MS_MIN) });
  try {
    return await commit();
  } finally {
    await keeper.stop();
  }
}
