/** `holdfast backup`, `backup check` and `restore`: copies of a data folder that a server can begin with again. */
import { constants, setPriority } from 'node:os';
import { DATA_DIR_DEFAULT, formatBytes } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { CliError } from '../cli-error.ts';
import { resolvePath } from '../given-path.ts';
import { sayWhenInterrupted } from '../interruption.ts';
import { dataOption, jsonOption } from '../options.ts';
import { printJson, printLine, printNote } from '../output.ts';
import { formatCount, formatTime } from '../progress/format-progress.ts';
import { withServer } from '../server-door.ts';

interface Flags {
  readonly data?: string;
  readonly json?: true;
  readonly quiet?: true;
}

type BackupVerdict = import('@holdfast/server').BackupVerdict;

/** ms between two lines of progress */
const LINE_INTERVAL_MS = 3_000;

const HELP_AFTER = `
Backs up the data folder of the embedded engine, while a server serves it or not. All that was acknowledged before it began is
in it. The same DIR again copies only what changed. If it is interrupted, the former backup in DIR is as good as before.
The word check is the command; a folder of that name is ./check.

Examples:
  holdfast backup /mnt/backup/holdfast --data /srv/holdfast
  holdfast backup check /mnt/backup/holdfast
  holdfast restore /mnt/backup/holdfast --data /srv/holdfast-restored`;

export function registerBackupCommand(program: Command): void {
  const backup = program
    .command('backup')
    .description('back up a data folder, also while a server serves it; again copies only what changed')
    .argument('<dir>', 'the folder of the backup, made if missing')
    .addOption(dataOption())
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', HELP_AFTER)
    .action(runBackup);
  backup
    .command('check')
    .description('open a backup and prove every byte of it; ends with 1 if anything is damaged')
    .argument('<dir>', 'the folder of the backup')
    .addOption(jsonOption())
    .addOption(quietOption())
    .action(runCheck);
}

export function registerRestoreCommand(program: Command): void {
  program
    .command('restore')
    .description('make a new data folder from a backup, every byte proven')
    .argument('<dir>', 'the folder of the backup')
    .requiredOption('--data <dir>', 'the new data folder, missing or empty')
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText(
      'after',
      `
Apps stay as they were backed up. Upload URLs and cursors from before are refused; revisions of root refs go on above all that
clients have seen. A restore that was interrupted is begun anew by the same command.`,
    )
    .action(runRestore);
}

const quietOption = (): Option => new Option('--quiet', 'print no progress');

async function runBackup(dir: string, flags: Flags): Promise<void> {
  sayWhenInterrupted('the backup that was there before is as good as it was; run the same command again');
  // Whoever serves the data goes first.
  setPriority(constants.priority.PRIORITY_LOW);
  const data = flags.data ?? (process.env.HOLDFAST_DATA || DATA_DIR_DEFAULT);
  const say = makeProgress(flags);
  const result = await withServer((server) =>
    server.makeBackup(
      { dataDir: resolvePath(data), folder: resolvePath(dir) },
      { onProgress: (step, copied) => say(`${step}: ${formatBytes(copied)} copied`) },
    ),
  );
  if (flags.json) printJson(result);
  else {
    const { nodes, bytes, copiedBytes, ms } = result;
    printLine(
      `backed up ${formatCount(nodes)} nodes, ${formatBytes(bytes)} in all, ${formatBytes(copiedBytes)} of it copied now, in ${formatTime(ms)}`,
    );
  }
}

async function runCheck(dir: string, _: unknown, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<Flags>();
  sayWhenInterrupted('nothing was changed');
  const say = makeProgress(flags);
  const verdict = await withServer((server) => server.checkBackup(resolvePath(dir), { onProgress: say }));
  if (flags.json) printJson(describe(verdict));
  else printVerdict(verdict);
  if (verdict.ok) return;
  const { damagedNodes, damagedFiles } = verdict;
  throw new CliError(
    `the backup ${dir} is damaged: ${formatCount(damagedNodes.length)} nodes, ${formatCount(damagedFiles.length)} other findings; make a new backup in another folder`,
  );
}

function describe({ damagedNodes, ...verdict }: BackupVerdict): Record<string, unknown> {
  const nodes = damagedNodes.map(({ space, hash, reason }) => ({
    ...{ app: space.appId, space: space.spaceId },
    ...{ hash, message: reason },
  }));
  return { ...verdict, damagedNodes: nodes };
}

function printVerdict({ ok, createdAt, nodes, bytes, damagedNodes, damagedFiles }: BackupVerdict): void {
  for (const what of damagedFiles) printLine(`damaged: ${what}`);
  for (const { space, hash, reason } of damagedNodes) {
    printLine(
      `damaged: node ${hash} of App ${JSON.stringify(space.appId)}, Space ${JSON.stringify(space.spaceId)}: ${reason}`,
    );
  }
  if (!ok) return;
  printLine(
    `the backup of ${new Date(createdAt).toISOString()} is good: ${formatCount(nodes)} nodes, ${formatBytes(bytes)}`,
  );
}

async function runRestore(dir: string, flags: Flags & { readonly data: string }): Promise<void> {
  sayWhenInterrupted('the new data folder is unfinished, and no server takes it; run the same command again');
  const say = makeProgress(flags);
  const result = await withServer((server) =>
    server.restoreBackup({ folder: resolvePath(dir), dataDir: resolvePath(flags.data) }, { onProgress: say }),
  );
  if (flags.json) printJson(result);
  else {
    const { createdAt, nodes, bytes, ms } = result;
    printLine(
      `restored ${formatCount(nodes)} nodes, ${formatBytes(bytes)}, as they were at ${new Date(createdAt).toISOString()}, in ${formatTime(ms)}`,
    );
    printLine(`next: holdfast serve --data ${flags.data}`);
  }
}

/** A line on stderr when a step begins, and every few seconds while it lasts. */
function makeProgress({ quiet }: Flags): (line: string) => void {
  let saidAt = Number.NEGATIVE_INFINITY;
  let step = '';
  return (line) => {
    const now = performance.now();
    const [begun = ''] = line.split(':');
    if (quiet || (begun === step && now - saidAt < LINE_INTERVAL_MS)) return;
    saidAt = now;
    step = begun;
    printNote(line);
  };
}
