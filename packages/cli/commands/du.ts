/** `holdfast du`: what trees take. */
import { type Hash, measureTrees, type TreeUsage, USAGE_ROOTS_MAX } from '@holdfast/client';
import { type Command, InvalidArgumentError } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection.ts';
import { jsonOption } from '../options.ts';
import { printJson, printTable } from '../output.ts';
import { parseRoot, withSource } from '../tree-connection.ts';

interface DuFlags extends ConnectionFlags {
  readonly json?: true;
}

const HELP = `
For each tree: the bytes of its files as they are pulled; the stored bytes of the nodes that none of the other trees given
has (OWN), and of those that another has too (SHARED). What is stored once counts once. Removing one of the trees can free
no more than its OWN bytes.

Examples:
  holdfast du HASH
  holdfast du MONDAY TUESDAY WEDNESDAY`;

export function registerDuCommand(program: Command): void {
  const command = program
    .command('du')
    .description('show what trees take, alone and shared')
    .argument('<hashes...>', 'the trees', collectRoots);
  withConnection(command.addOption(jsonOption()).addHelpText('after', HELP)).action(measure);
}

async function measure(roots: readonly Hash[], flags: DuFlags): Promise<void> {
  const usages = await withSource(flags, (source) => measureTrees(source, roots)).catch((error: unknown) => {
    if (!(error instanceof RangeError)) throw error;
    throw new CliError(
      `these trees have too many nodes for one count (${error.message}); measure fewer at once`,
    );
  });
  if (flags.json) return printJson(usages.map(describe));
  printTable(
    ['HASH', 'BYTES', 'OWN', 'SHARED', 'NODES'],
    usages.map(({ root, item, ownBytes, sharedBytes, nodes }) => [
      root,
      ...[item.bytes, ownBytes, sharedBytes, nodes].map(String),
    ]),
  );
}

function describe({ root, item, ...usage }: TreeUsage): unknown {
  return { hash: root, kind: item.kind, bytes: item.bytes, entryCount: item.entryCount, ...usage };
}

function collectRoots(text: string, previous: readonly Hash[] | undefined): readonly Hash[] {
  const roots = [...new Set([...(previous ?? []), parseRoot(text)])];
  if (roots.length > USAGE_ROOTS_MAX) throw new InvalidArgumentError(`At most ${USAGE_ROOTS_MAX} at once.`);
  return roots;
}
