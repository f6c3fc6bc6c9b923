/** `holdfast copy`: trees and their snapshots from one Space or server to another. */

import type { Client } from '@holdfast/client';
import { countOf } from '@holdfast/protocol';
import type { Command } from 'commander';
import { LeftOutError, UsageError } from '../cli-error.ts';
import { parseProfileName } from '../connection/profiles.ts';
import {
  type ConnectionFlags,
  findSpace,
  JOB_CLIENT,
  makePatient,
  withClient,
  withConnection,
  withJob,
} from '../connection/space-connection.ts';
import { quietOption, repeated } from '../options.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { findWanted } from '../trees/copied-snapshots.ts';
import { CopyJob } from '../trees/copy-job.ts';
import { parseNameValue, requireNamesReader, requireNamesWriter } from '../trees/names.ts';
import { LOCATION_HELP, parseLocation, requireReadable, type TreeLocation } from '../trees/reference.ts';

interface Flags extends ConnectionFlags {
  readonly to: string;
  readonly as?: string;
  readonly all?: true;
  readonly prune?: true;
}

const HELP = `
Copies snapshots with their trees to the Space of a profile (holdfast login): NAME the latest, NAME@ID that one, --all every snapshot of
the token's refDomain. Each keeps its id, name, time, host, path and message, and says where it was copied from. A hash, or a path in a
tree, becomes a new snapshot of --as NAME. Nodes that the target has are not sent, and a snapshot that it lists is not added again.
Interrupted, the same command goes on where it stopped. A tree that cannot be read whole is named and left out (3).

--prune takes away what was copied from this App and Space and is not listed there now. Pinned snapshots stay.

Examples:
  holdfast copy photos --to offsite
  holdfast copy photos/2024 --to offsite --as photos-2024
  holdfast copy --all --prune --to offsite`;

export function registerCopyCommand(program: Command): void {
  const command = program
    .command('copy')
    .description('copy snapshots and trees to another Space or server')
    .argument('[locations...]', LOCATION_HELP, repeated(parseLocation))
    .requiredOption('--to <profile>', 'the connection that takes them', parseProfileName)
    .option('--as <name>', 'keep the one LOCATION under this name', parseNameValue)
    .option('--all', 'every snapshot of every name')
    .option('--prune', 'with --all: take away copies that the source does not list any more')
    .addOption(quietOption());
  withConnection(command, HELP).action(copy);
}

async function copy(locations: readonly TreeLocation[] = [], flags: Flags): Promise<void> {
  checkUsage(locations, flags);
  const target: ConnectionFlags = { profile: flags.to };
  const copiedFrom = await findSpace(flags);
  await findSpace(target);
  if (flags.all) await requireNamesReader(flags);
  else await requireReadable(flags, locations);
  await requireNamesWriter(target);
  const whenInterrupted =
    'sent nodes are kept under their lease; run the same command again: it goes on where it stopped';
  const subject = flags.all
    ? `all names to ${flags.to}`
    : `${locations.map(({ text }) => text).join(' ')} to ${flags.to}`;
  let requests = 0;
  const onRequest = (): void => {
    requests += 1;
  };
  const job = new CopyJob();
  await withJob(
    { job: 'copy', subject, flags, whenInterrupted },
    async ({ patient: source }, context) => {
      const wanted = await findWanted(source, { ...flags, locations, copiedFrom }, context);
      const run = (client: Client): Promise<void> =>
        job.run({ source, target: makePatient(client, context), wanted, context });
      await withClient(target, run, { ...JOB_CLIENT, onRequest });
      job.throwOfSource();
    },
    onRequest,
  );
  const { snapshots, removed, sentNodes, sentBytes, leftOut } = job;
  if (flags.json) printJson({ snapshots, sentNodes, sentBytes, requests, leftOut });
  else {
    for (const { name, id } of snapshots) printLine(`${name}@${id}`);
    for (const { name, id } of removed) printNote(`taken away: ${name}@${id}`);
    if (!flags.quiet)
      printNote(`${countOf(snapshots.length, 'snapshot')} copied, ${countOf(sentNodes, 'node')} sent`);
  }
  if (leftOut.length > 0)
    throw new LeftOutError('what is named above was left out, and all the rest is copied');
}

/** Throws UsageError. */
function checkUsage(locations: readonly TreeLocation[], flags: Flags): void {
  if (flags.all && (locations.length > 0 || flags.as !== undefined)) {
    throw new UsageError('--all copies every snapshot under its name: leave LOCATION and --as out');
  }
  if (flags.prune && !flags.all) throw new UsageError('--prune compares all names: give --all too');
  if (!flags.all && locations.length === 0) throw new UsageError('name what to copy, or give --all');
  if (flags.as !== undefined && locations.length > 1) {
    throw new UsageError('--as names one copy: give one LOCATION');
  }
  const nameless = locations.find(({ reference, names }) => {
    return reference.kind === 'hash' || reference.kind === 'prefix' || names.length > 0;
  });
  if (nameless !== undefined && flags.as === undefined) {
    throw new UsageError(`${nameless.text} is no snapshot: say which name keeps it there: --as NAME`);
  }
}
