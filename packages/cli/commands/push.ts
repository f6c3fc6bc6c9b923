/** `holdfast push`: a folder, file or link into a Space, as a tree of nodes. */

import { lstatSync, type Stats } from 'node:fs';
import { hostname } from 'node:os';
import {
  CasError,
  type Client,
  formatName,
  PUSH_PARALLEL_MAX_DEFAULT,
  type PushPlan,
} from '@holdfast/client/push';
import {
  type FolderState,
  IGNORE_FILE_NAME,
  type LeftOut,
  OwnFolderError,
  type PlannedFolder,
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
  ScanError,
  type SnapshotTarget,
  TreeBusyError,
  TreeStateLostError,
} from '@holdfast/files/push';
import { countOf, formatBytes, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { CliError, LeftOutError, UsageError } from '../cli-error.ts';
import {
  type ConnectionFlags,
  describeScope,
  JOB_CLIENT,
  requireRootRefToken,
  withClient,
  withConnection,
} from '../connection/space-connection.ts';
import { describeFileError, readTextFile } from '../files.ts';
import {
  findLeaseWarning,
  leaseOption,
  parseGivenValue,
  parsePositiveValue,
  quietOption,
  repeated,
} from '../options.ts';
import { type JobContext, runJob } from '../progress/run-job.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { resolvePath } from '../trees/given-path.ts';
import { describeName, parseNameValue, requireNamesWriter } from '../trees/names.ts';
import { PushState } from '../trees/push-state.ts';

interface Flags extends ConnectionFlags {
  readonly rootRef?: true;
  readonly name?: string;
  readonly lease: number;
  readonly check?: true;
  readonly dryRun?: true;
  readonly ignoreFile?: readonly string[];
  readonly gitignore?: true;
  /** false after --no-ignore */
  readonly ignore: boolean;
  readonly skipSpecial?: true;
  readonly strict?: true;
  readonly mtime?: true;
  readonly jobs: number;
  /** false after --no-cache */
  readonly cache: string | false | undefined;
}

const CONTINUE = 'run the same command again: it continues where it stopped';
const KEPT = `uploaded nodes are kept under their lease; ${CONTINUE}`;

const HELP = `
Prints the hash of the tree as the last line on stdout; everything else goes to stderr. Only what the Space lacks is
uploaded. Interrupted in any way, the same command continues and repeats no finished upload.

The tree is safe until its lease ends (--lease), for as long as it is kept under a name (--name), or for as long as it has a
root ref (--root-ref). --name lists it as a snapshot: "holdfast snapshots" shows it and "holdfast pull NAME" pulls it; every
push under a name adds one, and "holdfast forget" takes them away. A tree that has a root ref gets no second one. Both need
a token made with --ref-domain and cas:root-refs:update, --name also cas:root-refs:read and cas:nodes:read.

Names are stored byte for byte, links as they are and never followed, one bit of the mode (executable), no times unless
--mtime. Files that cannot be read, keep changing or go away meanwhile are left out and named, and so are sockets, pipes and
devices; all the rest is stored, and the exit code is 3. --skip-special leaves the last three out without a word. --strict
sends nothing if anything would be left out, and fails. A file that only grows is taken to the length that it had.

Ignored is what matches the patterns (as in .gitignore) of a ${IGNORE_FILE_NAME} in any folder, or of --ignore-file. The data
folder of a server and its backups are passed over with a line, whatever their names.

Examples:
  holdfast push ./linux-source
  holdfast push ./photos --name photos
  holdfast push ./site --root-ref --ignore-file build/ignore.txt
  holdfast push ./photos --check           look at every node, and upload again what the server lost
  holdfast push ./photos --dry-run`;

export function registerPushCommand(program: Command): void {
  const command = program
    .command('push')
    .description('store a folder, file or link and everything below it')
    .argument('<path>', 'what to store')
    .option('--name <name>', 'keep the tree under this name, as its newest snapshot', parseNameValue)
    .addOption(
      new Option(
        '--root-ref',
        "give the tree a root ref in the token's refDomain, unless it has one",
      ).conflicts('name'),
    )
    .addOption(leaseOption('--lease <duration>', LEASE_DURATION_MS_MAX))
    .option('--check', 'lease every node instead of trusting a ready one, and upload lost nodes again')
    .option('--dry-run', 'only say what would be uploaded')
    .option(
      '--ignore-file <file>',
      'more patterns of what to leave out; may be repeated',
      repeated(parseGivenValue),
    )
    .option('--gitignore', 'honour .gitignore files in the tree too')
    .option('--no-ignore', `store everything, also what a ${IGNORE_FILE_NAME} leaves out`)
    .option('--skip-special', 'leave sockets, pipes and devices out without a word')
    .option('--strict', 'store nothing, and fail, if anything would be left out')
    .option('--mtime', 'record modification times (a tree with times has another hash)')
    .addOption(
      new Option('--jobs <n>', 'requests at once, at most')
        .argParser(parsePositiveValue(256))
        .default(PUSH_PARALLEL_MAX_DEFAULT),
    )
    .option('--cache <dir>', 'where hashes are remembered (default: the cache folder of the user)')
    .option('--no-cache', 'hash every file again, whatever is remembered')
    .addOption(quietOption());
  withConnection(command, HELP).action(push);
}

async function push(path: string, flags: Flags): Promise<void> {
  const absolute = resolvePath(path);
  if (!flags.ignore && (flags.ignoreFile !== undefined || flags.gitignore)) {
    throw new UsageError(
      '--no-ignore stores everything: leave it out, or else --ignore-file and --gitignore',
    );
  }
  const linkWarning = checkRoot(path, absolute);
  const leaseWarning = flags.rootRef ? undefined : findLeaseWarning('--lease', flags.lease);
  const warnings = [linkWarning, leaseWarning].filter((warning) => warning !== undefined);
  if (flags.rootRef && !flags.dryRun) await requireRootRefToken(flags);
  if (flags.name !== undefined && !flags.dryRun) await requireNamesWriter(flags);
  const request = {
    path,
    absolute,
    warnings,
    ignorePatterns: await readPatterns(flags.ignoreFile),
    flags,
  };
  const pushing = withClient(flags, (client) => runPush(client, request), JOB_CLIENT);
  const leftOut = await pushing.catch((error: unknown) => {
    throw isResumable(error) ? new CliError(`${(error as Error).message}; then ${CONTINUE}`) : error;
  });
  if (leftOut.length > 0) throw new LeftOutError(describeRest(leftOut.length, flags));
}

function describeRest(count: number, { dryRun }: Flags): string {
  const [what, rest] = count === 1 ? ['one entry', 'it is'] : [`${count} entries`, 'each is'];
  const stored = dryRun ? 'all the rest can be stored' : 'all the rest is stored';
  return `${what} left out, ${stored}: ${rest} named above with the reason; mend that, or ignore it with ${IGNORE_FILE_NAME}`;
}

/** Whether the push itself was right, and only the server or the token failed it. */
function isResumable(error: unknown): boolean {
  const cause = error instanceof CliError ? error.cause : undefined;
  if (!(cause instanceof CasError)) return false;
  const { code, status = 0 } = cause;
  const isAway = code === 'CONNECTION_FAILED' || code === 'TIMED_OUT';
  return isAway || status === 401 || status === 429 || status >= 500;
}

interface PushRequest {
  /** as it was given */
  readonly path: string;
  readonly absolute: string;
  /** told once the job can tell something */
  readonly warnings: readonly string[];
  readonly ignorePatterns: readonly string[];
  readonly flags: Flags;
}

async function runPush(client: Client, request: PushRequest): Promise<readonly LeftOut[]> {
  const { path, absolute, warnings, ignorePatterns, flags } = request;
  const rootRefScope = flags.rootRef === true ? await describeScope(flags) : undefined;
  const snapshot = await describeSnapshot(absolute, flags);
  const optionsFor = ({ progress, signal }: JobContext, state: FolderState): PushFolderOptions => ({
    client,
    path: absolute,
    state,
    ignorePatterns,
    ignoreFileNames: listIgnoreFileNames(flags),
    recordsMtime: flags.mtime === true,
    skipsSpecial: flags.skipSpecial === true,
    isStrict: flags.strict === true,
    leaseDurationMs: flags.lease,
    check: flags.check === true,
    parallelMax: flags.jobs,
    rootRefScope,
    snapshot,
    progress,
    signal,
  });
  const job = { job: 'push', subject: path, flags, whenInterrupted: KEPT } as const;
  const remembering =
    <T extends PlannedFolder | PushedFolder>(work: (options: PushFolderOptions) => Promise<T>) =>
    async (context: JobContext): Promise<T> => {
      const { progress } = context;
      const warn = (message: string): void => progress.warn(message);
      for (const warning of warnings) warn(warning);
      const remembered = new PushState({
        path: absolute,
        recordsMtime: flags.mtime === true,
        commitScope: rootRefScope ?? snapshot?.scope,
        cache: flags.cache,
        warn,
      });
      try {
        const done = await withState(remembered, flags, (state) => work(optionsFor(context, state)));
        for (const { pathBytes, why } of done.leftOut) warn(`${formatName(pathBytes)} is left out: ${why}`);
        return done;
      } catch (error) {
        throw explainFailure(error);
      } finally {
        remembered.close();
      }
    };
  if (flags.dryRun) {
    const plan = await runJob(job, remembering(planFolder), ({ root }) => root);
    printPlan(plan, flags);
    return plan.leftOut;
  }
  const pushed = await runJob(job, remembering(pushFolder), ({ root }) => root);
  printPushed(pushed, flags);
  return pushed.leftOut;
}

function describeLeftOut(leftOut: readonly LeftOut[]): readonly unknown[] {
  return leftOut.map(({ pathBytes, why }) => ({ ...describeName('path', pathBytes), why }));
}

/** As the list of snapshots shows it. */
async function describeSnapshot(absolute: string, flags: Flags): Promise<SnapshotTarget | undefined> {
  const { name } = flags;
  if (name === undefined) return undefined;
  const scope = JSON.stringify([await describeScope(flags), name]);
  return { name, scope, host: hostname().toWellFormed(), path: absolute.toWellFormed() };
}

function listIgnoreFileNames({ ignore, gitignore }: Flags): readonly string[] {
  if (!ignore) return [];
  return gitignore ? [IGNORE_FILE_NAME, '.gitignore'] : [IGNORE_FILE_NAME];
}

/** The remembered state is a hint: the push survives its loss. */
async function withState<T>(
  remembered: PushState,
  flags: Flags,
  work: (state: FolderState) => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      if (flags.cache === false) remembered.state.forgetEntries();
      return await work(remembered.state);
    } catch (error) {
      if (!(error instanceof TreeStateLostError)) throw error;
      remembered.replace(error);
    }
  }
}

function printPushed(pushed: PushedFolder, flags: Flags): void {
  const { root } = pushed;
  if (flags.json) {
    printJson({ ...pushed, leftOut: describeLeftOut(pushed.leftOut) });
    return;
  }
  if (!flags.quiet) {
    printNote(describeSafety(pushed));
    if (pushed.rottenNodes > 0) {
      printNote(`${describeRot(pushed)} besides; none of them belongs to this tree`);
    }
  }
  printLine(root);
}

function describeSafety({ leaseExpiresAt, commit, balance, snapshot }: PushedFolder): string {
  if (snapshot !== undefined) return `kept as ${snapshot.name}@${snapshot.id}`;
  if (balance !== undefined) return `has a root ref already (its balance is ${balance}): none was added`;
  if (commit !== undefined) return `has a root ref since revision ${commit.revision}`;
  return `safe until ${new Date(leaseExpiresAt).toISOString()}`;
}

function printPlan(plan: PlannedFolder, flags: Flags): void {
  if (flags.json) {
    printJson({ ...plan, leftOut: describeLeftOut(plan.leftOut) });
    return;
  }
  if (!flags.quiet) {
    printNote(
      plan.missingNodes === 0
        ? describeThere(plan)
        : `would upload ${countOf(plan.missingNodes, 'node')} with ${formatBytes(plan.missingBytes)} of content`,
    );
  }
  printLine(plan.root);
}

function describeThere(plan: PushPlan): string {
  if (plan.rottenNodes === 0) return 'everything is there already';
  return `everything seems to be there, but ${describeRot(plan)}: a push finds those of this tree and uploads them again`;
}

function describeRot({ rottenNodes }: { readonly rottenNodes: number }): string {
  return `the server knows of ${countOf(rottenNodes, 'damaged node')} in this Space`;
}

/** Tells the user in one line what to do. The SDK's own errors are explained in one place for all commands. */
function explainFailure(error: unknown): unknown {
  if (error instanceof ScanError) {
    return new CliError(
      `${error.message}; nothing was sent. Ignore them with ${IGNORE_FILE_NAME} (or --skip-special for sockets, pipes and devices), or mend them`,
      { cause: error },
    );
  }
  if (error instanceof TreeBusyError || error instanceof OwnFolderError)
    return new CliError(error.message, { cause: error });
  if (error instanceof TreeStateLostError) {
    const advice = 'check the disk, or choose another folder with --cache DIR';
    return new CliError(`the state remembered of this path cannot be used (${error.message}); ${advice}`, {
      cause: error,
    });
  }
  if (error instanceof Error && 'syscall' in error) {
    return new CliError(`the folder cannot be read: ${describeFileError(error)}`, { cause: error });
  }
  return error;
}

/** Returns the warning to print before the push begins. Throws CliError when the path cannot be stored at all. */
function checkRoot(path: string, absolute: string): string | undefined {
  const stats = lstatRoot(path, absolute);
  if (stats.isSymbolicLink()) {
    return `${path} is a symbolic link and is stored as one; to store its target, name the target, or end the path with a slash`;
  }
  if (!stats.isDirectory() && !stats.isFile()) {
    throw new CliError(`${path} is a socket, pipe or device; only folders, files and links can be stored`);
  }
  return undefined;
}

function lstatRoot(path: string, absolute: string): Stats {
  try {
    return lstatSync(absolute);
  } catch (error) {
    throw new CliError(`${path} cannot be read: ${describeFileError(error)}`);
  }
}

async function readPatterns(files: readonly string[] | undefined): Promise<string[]> {
  const texts: string[] = [];
  for (const file of files ?? []) texts.push(await readTextFile(file, 'the file of patterns'));
  return texts;
}
