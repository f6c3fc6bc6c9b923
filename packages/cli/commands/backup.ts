/** `holdfast backup`, `backup check` and `restore`: copies of a data folder that a server can begin with again. */
import { constants, setPriority } from 'node:os';
import { countOf, DATA_DIR_DEFAULT, DAY_MS, formatBytes, formatCount } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { dataOption, jsonOption, parseDurationValue, quietOption, withForeignOwner } from '../options.ts';
import { formatTime } from '../progress/format-progress.ts';
import { nowAndThen } from '../progress/waits.ts';
import { withServer } from '../server-door.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printable, printJson, printLine, printNote } from '../terminal/output.ts';
import { resolvePath } from '../trees/given-path.ts';

interface Flags {
  readonly data?: string;
  readonly content?: string;
  readonly keepGone?: number;
  readonly json?: true;
  readonly quiet?: true;
}

type BackupVerdict = import('@holdfast/server').BackupVerdict;
type DamagedNode = BackupVerdict['damagedNodes'][number];

const HELP_AFTER = `
Backs up the data folder of the embedded engine, while a server serves it or not. All that was acknowledged before it began is
in it. A further backup into the same DIR is incremental. If it is interrupted, the former backup in DIR is as good as before.
The word check is the command; a folder of that name is ./check.
With --content it copies the new objects of a bucket that servers share; the database is backed up by its own means, between two
such copies (docs/operations.md, Backups).

Examples:
  holdfast backup /mnt/backup/holdfast --data /srv/holdfast
  holdfast backup check /mnt/backup/holdfast
  holdfast restore /mnt/backup/holdfast --data /srv/holdfast-restored`;

export function registerBackupCommand(program: Command): void {
  const backup = withForeignOwner(program.command('backup'))
    .description('back up a data folder, also while a server serves it; incremental')
    .argument('<dir>', 'the folder of the backup, made if missing')
    .addOption(dataOption())
    .addOption(
      contentOption(
        'back up the bucket of shared engines instead: s3://BUCKET…, as serve takes it (or HOLDFAST_CONTENT with HOLDFAST_METADATA)',
      ),
    )
    .addOption(
      new Option(
        '--keep-gone <duration>',
        'with --content: keep objects of collected nodes for this long (default: 30d)',
      ).argParser(parseDurationValue),
    )
    .addOption(jsonOption())
    .addOption(quietOption('print no progress'))
    .addHelpText('after', HELP_AFTER)
    .action(runBackup);
  backup
    .command('check')
    .description('open a backup and prove every byte of it; ends with 1 if anything is damaged')
    .argument('<dir>', 'the folder of the backup')
    .addOption(jsonOption())
    .addOption(quietOption('print no progress'))
    .action(runCheck);
}

export function registerRestoreCommand(program: Command): void {
  program
    .command('restore')
    .description(
      'make a new data folder from a backup, with all that is good in it; ends with 1 if anything is damaged',
    )
    .argument('<dir>', 'the folder of the backup')
    .option('--data <dir>', 'the new data folder, missing or empty')
    .addOption(contentOption('put back the objects that this bucket lacks, from the backup of a bucket'))
    .addOption(jsonOption())
    .addOption(quietOption('print no progress'))
    .addHelpText(
      'after',
      `
Apps stay as they were backed up. Upload URLs and cursors from before are refused; revisions of root refs go on above all that
clients have seen. A restore that was interrupted is begun anew by the same command.`,
    )
    .action(runRestore);
}

const contentOption = (description: string): Option => new Option('--content <url>', description);

async function runBackup(dir: string, flags: Flags): Promise<void> {
  sayWhenInterrupted('the former backup is unchanged; run the same command again');
  // A running server of the folder goes first.
  setPriority(constants.priority.PRIORITY_LOW);
  const data = flags.data ?? (process.env.HOLDFAST_DATA || DATA_DIR_DEFAULT);
  const say = makeProgress(flags);
  const onProgress = (step: string, copied: number): void => say(`${step}: ${formatBytes(copied)} copied`);
  const { keepGone: keepGoneMs = 30 * DAY_MS } = flags;
  const content = flags.content ?? findSharedContent(flags, process.env);
  if (flags.content !== undefined && flags.data !== undefined)
    throw new UsageError('--data is a folder, and --content a bucket: give one of them');
  const folder = resolvePath(dir, { isMadeFolder: true });
  const result = await withServer((server) =>
    content === undefined
      ? server.makeBackup({ dataDir: resolvePath(data, { isMadeFolder: true }), folder }, { onProgress })
      : server.backUpBucket(
          { place: server.parseBucketPlace(content, process.env), folder, keepGoneMs },
          {
            onProgress,
            onUntold: (reason) =>
              printNote(
                `the backup is made, but no server can tell how old it is, because its time could not be written into the bucket: ${reason}`,
              ),
          },
        ),
  );
  if (flags.json) printJson(result);
  else {
    const { nodes, bytes, copiedBytes, ms } = result;
    printLine(
      `backed up ${formatCount(nodes)} ${content === undefined ? 'nodes' : 'objects'}, ${formatBytes(bytes)} in all, ${formatBytes(copiedBytes)} of it copied now, in ${formatTime(ms)}`,
    );
  }
  const { lostObjects = 0 } = result;
  if (lostObjects > 0) throw describeLost(data, lostObjects);
}

/** The exit code is what a timer tells its operator. */
function describeLost(data: string, count: number): CliError {
  const what =
    count === 1 ? '1 object that its rows name is' : `${formatCount(count)} objects that its rows name are`;
  return new CliError(
    `the backup is made and whole, but of ${data} ${what} lost: the backup keeps the copies from before. holdfast check --data ${data} names what is damaged; a restore of this backup has it`,
  );
}

/** The bucket to back up, if no folder is given and the variables of `serve` name shared engines. */
function findSharedContent(
  { data }: Flags,
  { HOLDFAST_METADATA: url, HOLDFAST_METADATA_FILE: file, HOLDFAST_CONTENT: content }: NodeJS.ProcessEnv,
): string | undefined {
  return data === undefined && (url || file) ? content || undefined : undefined;
}

async function runCheck(dir: string, _: unknown, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<Flags>();
  sayWhenInterrupted('nothing was changed');
  const say = makeProgress(flags);
  const verdict = await withServer((server) =>
    server.checkBackup(resolvePath(dir, { isMadeFolder: true }), { onProgress: say }),
  );
  if (flags.json) printJson(describe(verdict));
  else printVerdict(verdict);
  if (verdict.ok) return;
  const { counted, damagedNodes, damagedFiles } = verdict;
  const [nodes, others] = [countOf(damagedNodes.length, 'node'), damagedFiles.length];
  throw new CliError(
    counted === 'node'
      ? `the backup ${dir} is damaged: ${nodes}, ${countOf(others, 'other finding')}; make a new backup in another folder`
      : `the backup ${dir} is damaged: ${countOf(others, 'finding')}; remove the files of the objects named above, and the next backup reads them anew`,
  );
}

function describe({ damagedNodes, counted: _, ...verdict }: BackupVerdict): Record<string, unknown> {
  return { ...verdict, damagedNodes: damagedNodes.map(describeNode) };
}

const describeNode = ({ space, hash, reason }: DamagedNode) => ({
  ...{ app: space.appId, space: space.spaceId },
  ...{ hash, message: reason },
});

const formatDamagedNode = ({ space, hash, reason }: DamagedNode): string =>
  `damaged: node ${hash} of App ${JSON.stringify(space.appId)}, Space ${JSON.stringify(space.spaceId)}: ${reason}`;

function printVerdict(verdict: BackupVerdict): void {
  const { ok, createdAt, counted, nodes, bytes, damagedNodes, damagedFiles } = verdict;
  for (const what of damagedFiles) printLine(printable(`damaged: ${what}`));
  for (const node of damagedNodes) printLine(printable(formatDamagedNode(node)));
  if (!ok) return;
  printLine(
    `the backup of ${new Date(createdAt).toISOString()} is good: ${countOf(nodes, counted)}, ${formatBytes(bytes)}`,
  );
}

async function runRestore(dir: string, flags: Flags): Promise<void> {
  const { data, content } = flags;
  if ((data === undefined) === (content === undefined))
    throw new UsageError('give --data DIR for a new data folder, or --content s3://BUCKET… for a bucket');
  if (content !== undefined) return restoreIntoBucket(dir, content, flags);
  sayWhenInterrupted('the new data folder is unfinished, and no server takes it; run the same command again');
  const say = makeProgress(flags);
  const dataDir = resolvePath(data ?? '', { isMadeFolder: true });
  const result = await withServer((server) =>
    server.restoreBackup({ folder: resolvePath(dir, { isMadeFolder: true }), dataDir }, { onProgress: say }),
  );
  const { createdAt, nodes, bytes, ms, damagedNodes, damagedFiles } = result;
  if (flags.json) printJson({ ...result, damagedNodes: damagedNodes.map(describeNode) });
  else {
    printLine(
      `restored ${countOf(nodes, 'node')}, ${formatBytes(bytes)}, as they were at ${new Date(createdAt).toISOString()}, in ${formatTime(ms)}`,
    );
    printLine(`next: holdfast serve --data ${data}`);
  }
  for (const what of damagedFiles) printNote(printable(`damaged: ${what}`));
  for (const node of damagedNodes) printNote(printable(formatDamagedNode(node)));
  if (damagedNodes.length + damagedFiles.length === 0) return;
  throw new CliError(
    `the backup ${dir} is damaged: everything else was restored to ${data}, but ${countOf(damagedNodes.length, 'node')}, named above, cannot be read (503) until uploaded again; holdfast check --repair --data ${data} repairs rows that are named; then make a new backup in another folder`,
  );
}

async function restoreIntoBucket(dir: string, content: string, flags: Flags): Promise<void> {
  sayWhenInterrupted('restored files stay; run the same command again');
  const say = makeProgress(flags);
  const result = await withServer((server) =>
    server.restoreBucket(
      {
        folder: resolvePath(dir, { isMadeFolder: true }),
        place: server.parseBucketPlace(content, process.env),
      },
      { onProgress: say },
    ),
  );
  if (flags.json) return printJson(result);
  const { nodes, restored, ms } = result;
  printLine(
    `put back ${countOf(restored, 'object')} that the bucket did not have, of ${formatCount(nodes)}, in ${formatTime(ms)}`,
  );
}

/** A line on stderr when a step begins, and every few seconds while it lasts. */
function makeProgress({ quiet }: Flags): (line: string) => void {
  let step = '';
  let say = printNote;
  return (line) => {
    if (quiet) return;
    const [begun = ''] = line.split(':');
    if (begun === step) return say(line);
    step = begun;
    say = nowAndThen(printNote);
    printNote(line);
  };
}
