/** `holdfast diff`: what differs between two trees. */
import { type Difference, diffTrees, formatPath, pathBytes } from '@holdfast/client';
import type { Command } from 'commander';
import { type ConnectionFlags, withConnection } from '../connection.ts';
import { JsonListWriter, writeLineSlowly } from '../json-stream.ts';
import { jsonOption } from '../options.ts';
import { printNote } from '../output.ts';
import { formatCount } from '../progress/format-progress.ts';
import { describeItem, describeName, findLocation, withSource } from '../tree-connection.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../tree-reference.ts';

interface DiffFlags extends ConnectionFlags {
  readonly json?: true;
}

const HELP = `
One line for each difference: A added, D removed (a directory with all below it), M modified. Only directories that differ
are read. Ends with 0 whether there are differences or not.

Examples:
  holdfast diff OLD NEW
  holdfast diff OLD/src NEW/src --json`;

export function registerDiffCommand(program: Command): void {
  const command = program
    .command('diff')
    .description('compare two trees')
    .argument('<before>', LOCATION_HELP, parseLocation)
    .argument('<after>', LOCATION_HELP, parseLocation);
  withConnection(command.addOption(jsonOption()).addHelpText('after', HELP)).action(compare);
}

const LETTERS: Readonly<Record<Difference['type'], string>> = { added: 'A', removed: 'D', modified: 'M' };

async function compare(before: TreeLocation, after: TreeLocation, flags: DiffFlags): Promise<void> {
  const counts = { added: 0, removed: 0, modified: 0 };
  await withSource(flags, [before, after], async (source, [old, now]) => {
    const [from, to] = [await findLocation(source, old), await findLocation(source, now)];
    const json = flags.json ? new JsonListWriter('differences') : undefined;
    for await (const difference of diffTrees(source, from, to)) {
      counts[difference.type] += 1;
      if (json === undefined) await writeLineSlowly(formatDifference(difference));
      else await json.add(describe(difference));
    }
    json?.end(counts);
  });
  const { added, removed, modified } = counts;
  if (!flags.json) {
    printNote(
      `${formatCount(added)} added, ${formatCount(removed)} removed, ${formatCount(modified)} modified`,
    );
  }
}

function formatDifference({ type, path, before, after, aspects }: Difference): string {
  const isFolder = (after ?? before)?.kind === 'directory';
  // What is not the content is worth a word.
  const others = aspects.filter((aspect) => aspect !== 'content');
  return `${LETTERS[type]} ${formatPath(path)}${isFolder ? '/' : ''}${others.length === 0 ? '' : ` (${others.join(', ')})`}`;
}

function describe({ type, path, before, after, aspects }: Difference): unknown {
  return {
    type,
    ...describeName('path', pathBytes(path)),
    ...(type === 'modified' ? { aspects } : {}),
    ...(before === undefined ? {} : { before: describeItem(before) }),
    ...(after === undefined ? {} : { after: describeItem(after) }),
  };
}
