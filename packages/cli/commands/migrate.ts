/** `holdfast migrate`: copies a whole deployment from one engine to another, verified and resumable. */

import type { ProgressReporter } from '@holdfast/client/internal';
import { formatCount } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { readSecretText } from '../files.ts';
import { quietOption, withForeignOwner } from '../options.ts';
import { formatTime } from '../progress/format-progress.ts';
import { runShortJob, stderrOutput } from '../progress/run-job.ts';
import { describeDeployment, TransferView } from '../progress/transfer-view.ts';
import { saying } from '../progress/waits.ts';
import { type Server, withServer } from '../server-door.ts';
import { beforeInterruptionLine, interruption, sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine } from '../terminal/output.ts';

interface MigrateFlags {
  readonly from?: string;
  readonly fromFile?: string;
  readonly to?: string;
  readonly toFile?: string;
  readonly dryRun?: true;
  readonly json?: true;
  readonly quiet?: true;
}

type Transfer = import('@holdfast/server').Transfer;
type TransferPlan = import('@holdfast/server').TransferPlan;
type TransferResult = import('@holdfast/server').TransferResult;

const WAITING = 'no answer yet from the engines of the source and the target';
const PLACE = 'DIR, or postgres://…,s3://…';

const HELP_AFTER = `
A place is a data folder, or a database and a bucket joined by a comma:
  postgres://USER@HOST/DATABASE,s3://BUCKET?endpoint=URL&region=REGION
A URL given as a flag can be seen in the list of processes: a password belongs in a file (--to-file, --from-file), in
HOLDFAST_MIGRATE_FROM or HOLDFAST_MIGRATE_TO, or into PGPASSWORD. S3 credentials come from the usual AWS variables and files.

Stop every server of both sides first. The target must be empty. The source stays as it is. An interrupted copy, however it
was interrupted, goes on when the same command is run again; until it is complete no server starts on the target.

Examples:
  holdfast migrate --from /srv/holdfast --to-file scale-out.url --dry-run
  holdfast migrate --from /srv/holdfast --to-file scale-out.url
  holdfast migrate --from-file scale-out.url --to /srv/holdfast`;

export function registerMigrateCommand(program: Command): void {
  withForeignOwner(program.command('migrate'))
    .description('copy a whole deployment to another engine, verified; run again to go on')
    .option('--from <place>', `the deployment to copy: ${PLACE} (or HOLDFAST_MIGRATE_FROM)`)
    .addOption(new Option('--from-file <file>', 'file that holds the place alone').conflicts('from'))
    .option('--to <place>', `where it goes, empty: ${PLACE} (or HOLDFAST_MIGRATE_TO)`)
    .addOption(new Option('--to-file <file>', 'file that holds the place alone').conflicts('to'))
    .option('--dry-run', 'only say what would be copied')
    .option('--json', 'print the result as JSON, and events on stderr')
    .addOption(quietOption('print no progress'))
    .addHelpText('after', HELP_AFTER)
    .action(runMigrate);
}

async function runMigrate(flags: MigrateFlags): Promise<void> {
  await withServer(async (server) => {
    const places = await readPlaces(server, flags);
    if (flags.dryRun) reportPlan(flags, await saying(WAITING, () => server.planTransfer(places)));
    else reportResult(flags, await migrate(server, places, flags));
  });
}

async function migrate(server: Server, places: Transfer, flags: MigrateFlags): Promise<TransferResult> {
  const output = stderrOutput();
  const view = new TransferView({
    isJson: flags.json === true,
    isQuiet: flags.quiet === true,
    environment: process.env,
    output,
  });
  sayWhenInterrupted('the copied part is kept; run the same command again to go on');
  const forget = beforeInterruptionLine(() => view.close());
  try {
    const copy = (progress: ProgressReporter): Promise<TransferResult> => {
      const isDone = progress.waitFor(WAITING);
      return server
        .transferDeployment(places, {
          signal: interruption,
          onEvent: (event) => {
            progress.item(event.type);
            view.take(event);
          },
        })
        .finally(isDone);
    };
    // A stall begins a line of its own.
    const write = (text: string): void => {
      view.close();
      output.write(text);
    };
    return await runShortJob(flags, copy, { ...output, write });
  } finally {
    forget();
    view.close();
  }
}

/** The place of a folder, or of a database that asks for none, may be read by anyone. */
function holdsPassword(place: string): boolean {
  return /:\/\/[^/@\s]*:[^@\s]*@|[?&]password=/.test(place);
}

async function readPlaces(server: Server, flags: MigrateFlags): Promise<Transfer> {
  const read = async (
    name: '--from' | '--to',
    flag: string | undefined,
    file: string | undefined,
    variable: string,
  ) => {
    const text =
      file === undefined
        ? (flag ?? process.env[variable])
        : await readSecretText(file, 'the place', holdsPassword);
    if (text === undefined || text.trim() === '') {
      throw new UsageError(`${name} is missing; give ${name} or ${name}-file: ${PLACE}`);
    }
    return server.parseDeploymentPlace(name, text, process.env);
  };
  return {
    from: await read('--from', flags.from, flags.fromFile, 'HOLDFAST_MIGRATE_FROM'),
    to: await read('--to', flags.to, flags.toFile, 'HOLDFAST_MIGRATE_TO'),
  };
}

const TARGETS: Readonly<Record<TransferPlan['target'], string>> = {
  empty: 'the target is empty: everything is to be copied',
  unfinished: 'the target has a part of it: the copy goes on from there',
  finished: 'the target has all of it: nothing is left to do',
};

function reportPlan({ json }: MigrateFlags, { totals, target }: TransferPlan): void {
  if (json) printJson({ ...totals, target });
  else {
    printLine(describeDeployment(totals));
    printLine(TARGETS[target]);
  }
}

function reportResult({ json }: MigrateFlags, result: TransferResult): void {
  const { apps, counts, damagedNodes, elapsedMs } = result;
  if (json) {
    printJson({ apps, ...counts, damagedNodes, elapsedMs });
    return;
  }
  printLine(`migrated and verified: ${describeDeployment({ apps, ...counts })}, in ${formatTime(elapsedMs)}`);
  if (damagedNodes > 0) {
    printLine(`${formatCount(damagedNodes)} of the source's nodes had bad bytes; each was named above`);
  }
}
