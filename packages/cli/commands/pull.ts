/** `holdfast pull`: a tree out of a Space into a folder. */

import type { Hash, PullResult } from '@holdfast/client/internal';
import { createFileWriter, pullToPath } from '@holdfast/files';
import { countOf, formatBytes } from '@holdfast/protocol';
import type { Command } from 'commander';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { quietOption, repeated } from '../options.ts';
import { printJson, printNote } from '../terminal/output.ts';
import { resolvePath } from '../trees/given-path.ts';
import { findLocation, runTreeJob } from '../trees/located-trees.ts';
import { LOCATION_HELP, parseLocation, parseTreePath, type TreeLocation } from '../trees/reference.ts';

interface PullFlags extends ConnectionFlags {
  readonly force?: true;
  readonly fsync?: true;
  readonly sparse?: true;
  readonly range?: readonly (readonly Uint8Array[])[];
}

const HELP = `
Every node is verified before a byte of it is written, every file gets its name when it is whole, and nothing is ever written
through a link. Interrupted, the same command goes on: a file with the same bytes and mode, or a link with the same target,
counts as done. Anything else in the way, unless it is a folder, stops it before it writes; --force replaces it. Links
are restored as they are, never followed. Files that are not in the tree stay.
When what is pulled is a file, DIR is the path of the file written.

Examples:
  holdfast pull HASH ./copy
  holdfast pull photos ./copy                     the latest that was pushed with --name photos
  holdfast pull photos@2026-11-22/cats ./cats     the folder cats as it was on that day
  holdfast pull HASH ./copy --range src docs/design.md`;

export function registerPullCommand(program: Command): void {
  const command = program
    .command('pull')
    .description('write a tree to a folder')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .argument('<dir>', 'the folder that gets its entries, or the path of a file; made when missing')
    .option(
      '--range <paths...>',
      'only these paths of the tree, with all below them',
      repeated(parseTreePath),
    )
    .option('--force', 'replace files and links that are in the way')
    .option('--fsync', 'safe against power loss at every step: slower')
    .option('--sparse', 'make holes of blocks of zeros: they take no room on the disk')
    .addOption(quietOption());
  withConnection(command, HELP).action(pull);
}

async function pull(location: TreeLocation, directory: string, flags: PullFlags): Promise<void> {
  // A path that cannot be followed fails before anything is read.
  resolvePath(directory, { isMadeFolder: true });
  const whenInterrupted =
    'the written files are kept; run the same command again: it goes on where it stopped';
  const job = { job: 'pull', subject: location.text, flags, whenInterrupted } as const;
  const result = await runTreeJob(job, location, async (source, tree, context) =>
    pullToPath(source, await findLocation(source, tree), directory, {
      ...context,
      paths: flags.range,
      force: flags.force,
      fsync: flags.fsync,
      sparse: flags.sparse,
      writer: flags.sparse ? undefined : createFileWriter({ warn: context.progress.warn }),
    }),
  );
  if (flags.json) printJson(describeResult(result.item.hash, result));
  else if (!flags.quiet) printNote(summarize(result));
}

function describeResult(hash: Hash, result: PullResult): unknown {
  const { files, folders, links, bytes, writtenFiles, writtenLinks, writtenBytes } = result;
  return { hash, files, folders, links, bytes, writtenFiles, writtenLinks, writtenBytes };
}

function summarize(result: PullResult): string {
  const { files, links, writtenFiles, writtenLinks, writtenBytes } = result;
  const there = countBoth(files, links);
  const verb = files + links === 1 ? 'is' : 'are';
  return `${there} ${verb} there; wrote ${countBoth(writtenFiles, writtenLinks)}, ${formatBytes(writtenBytes)}`;
}

/** Links are named only if there are some, and files unless there are links alone. */
function countBoth(files: number, links: number): string {
  if (links === 0) return countOf(files, 'file');
  return files === 0 ? countOf(links, 'link') : `${countOf(files, 'file')} and ${countOf(links, 'link')}`;
}
