/** `holdfast ls`: the entries of one directory of a tree. */

import { type DirectoryEntry, formatName, openTree, type TreeItem } from '@holdfast/client';
import { formatBytes } from '@holdfast/protocol';
import type { Command } from 'commander';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { JsonListWriter, writeLineSlowly } from '../json-stream.ts';
import { describeItem, findLocation, withSource } from '../trees/located-trees.ts';
import { describeName } from '../trees/names.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

interface LsFlags extends ConnectionFlags {
  readonly long?: true;
}

const HELP = `
Prints the names in their order (by bytes), one on each line. With --long before each name: kind (d, -, x for an executable
file, l for a link), size (of a directory: all below; exact with --json) and hash. Bytes that are not UTF-8 show as \\xNN,
control characters as \\uNNNN; with --json such names have their exact bytes in hex.

Examples:
  holdfast ls HASH
  holdfast ls HASH/src --long`;

export function registerLsCommand(program: Command): void {
  const command = program
    .command('ls')
    .description('list a directory of a tree')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .option('-l, --long', 'also kind, size and hash');
  withConnection(command, HELP).action(list);
}

async function list(location: TreeLocation, flags: LsFlags): Promise<void> {
  await withSource(flags, [location], async (source, [tree]) => {
    const item = await findLocation(source, tree);
    const json = flags.json ? new JsonListWriter('entries') : undefined;
    for await (const entry of entriesOf(item)) {
      if (json !== undefined) await json.add({ ...describeName('name', entry.name), ...describeItem(entry) });
      else await writeLineSlowly(flags.long ? formatLong(entry) : formatName(entry.name));
    }
    json?.end();

    async function* entriesOf(of: TreeItem): AsyncGenerator<DirectoryEntry> {
      if (of.kind === 'directory') return yield* openTree(source).readDirectory(of);
      // As `ls` of a file does: the file itself.
      yield { ...of, name: tree.names.at(-1) ?? new TextEncoder().encode(tree.root) };
    }
  });
}

function formatLong(entry: DirectoryEntry): string {
  return `${kindLetter(entry)} ${formatBytes(entry.bytes).padStart(9)} ${entry.hash} ${formatName(entry.name)}`;
}

function kindLetter({ kind, isExecutable }: DirectoryEntry): string {
  if (kind === 'directory') return 'd';
  if (kind === 'symlink') return 'l';
  return isExecutable ? 'x' : '-';
}
