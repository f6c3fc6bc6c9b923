/** `holdfast tree`: a directory and all below it. */

import {
  formatName,
  openTree,
  pathBytes,
  type TreePath,
  type WalkedEntry,
  walkTree,
} from '@holdfast/client/internal';
import { countOf, formatBytes } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { JsonListWriter, writeLineSlowly } from '../json-stream.ts';
import { parsePositiveValue } from '../options.ts';
import { printNote } from '../terminal/output.ts';
import { describeItem, findLocation, withSource } from '../trees/located-trees.ts';
import { describeName } from '../trees/names.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

interface TreeFlags extends ConnectionFlags {
  readonly depth?: number;
}

const HELP = `
A line for each entry, indented by its depth: folders end in /, executable files in *, links show their targets. With --json
one list of all entries with their paths.

Examples:
  holdfast tree HASH --depth 2
  holdfast tree HASH/src --json`;

export function registerTreeCommand(program: Command): void {
  const command = program
    .command('tree')
    .description('show a directory of a tree with all below it')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .option('--depth <n>', 'limit the depth', parsePositiveValue());
  withConnection(command, HELP).action(draw);
}

async function draw(location: TreeLocation, flags: TreeFlags): Promise<void> {
  await withSource(flags, [location], async (source, [tree]) => {
    const item = await findLocation(source, tree);
    if (item.kind !== 'directory') {
      throw new CliError(`${location.text} is not a directory; show it: holdfast ls --long ${location.text}`);
    }
    const json = flags.json ? new JsonListWriter('entries') : undefined;
    if (json === undefined) await writeLineSlowly(formatName(new TextEncoder().encode(location.text)));
    const enter = (path: TreePath): boolean => depthOf(path) < (flags.depth ?? Number.POSITIVE_INFINITY);
    for await (const step of walkTree(source, item, { enter })) {
      if (step.type === 'left') continue;
      const target =
        step.entry.kind === 'symlink' ? await openTree(source).readSymlink(step.entry) : undefined;
      if (json === undefined) await writeLineSlowly(drawLine(step, target));
      else await json.add(describe(step, target));
    }
    json?.end();
    if (json === undefined)
      printNote(`${countOf(item.entryCount, 'entry', 'entries')}, ${formatBytes(item.bytes)}`);
  });
}

const INDENTATION = '  ';

function drawLine({ path, entry }: WalkedEntry, target: Uint8Array | undefined): string {
  const mark = entry.kind === 'directory' ? '/' : entry.isExecutable ? '*' : '';
  const shownTarget = target === undefined ? '' : ` -> ${formatName(target)}`;
  return `${INDENTATION.repeat(depthOf(path))}${formatName(entry.name)}${mark}${shownTarget}`;
}

function describe({ path, entry }: WalkedEntry, target: Uint8Array | undefined): unknown {
  const shownTarget = target === undefined ? {} : describeName('target', target);
  return { ...describeName('path', pathBytes(path)), ...describeItem(entry), ...shownTarget };
}

function depthOf(path: TreePath): number {
  let depth = 0;
  for (let at: TreePath | undefined = path; at !== undefined; at = at.parent) depth += 1;
  return depth;
}
