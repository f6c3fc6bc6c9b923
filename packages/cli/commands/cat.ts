/** `holdfast cat`: the bytes of one file of a tree. */
import { openTree } from '@holdfast/client';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { writeSlowly } from '../progress/waits.ts';
import { printJson } from '../terminal/output.ts';
import { describeItem, findLocation, withSource } from '../trees/located-trees.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

const HELP = `
Every byte was verified before it is written. A link has no bytes of its own here: it is not followed. With --json only what
the file is, not its bytes.

Examples:
  holdfast cat HASH/README.md
  holdfast cat HASH > file          HASH is a file, as ls --long shows it`;

export function registerCatCommand(program: Command): void {
  const command = program
    .command('cat')
    .description('write a file of a tree to stdout')
    .argument('<location>', LOCATION_HELP, parseLocation);
  withConnection(command, HELP).action(write);
}

async function write(location: TreeLocation, flags: ConnectionFlags): Promise<void> {
  await withSource(flags, [location], async (source, [tree]) => {
    const item = await findLocation(source, tree);
    if (flags.json) return printJson(describeItem(item));
    if (item.kind === 'directory') {
      throw new CliError(`${location.text} is a directory; list it: holdfast ls ${location.text}`);
    }
    if (item.kind === 'symlink') {
      const show = location.names.length > 0 ? `holdfast tree ${parentOf(location)}` : 'pull it';
      throw new CliError(
        `${location.text} is a link, and links are not followed; to see its target: ${show}`,
      );
    }
    for await (const piece of openTree(source).readFile(item)) {
      await writeSlowly(piece);
    }
  });
}

/** The directory that a path of at least one name is in, as one would type it. */
function parentOf({ text }: TreeLocation): string {
  return text.replace(/\/+[^/]+\/*$/, '');
}
