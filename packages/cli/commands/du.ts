/** `holdfast du`: what trees take. */
import { type Hash, measureTrees, type TreeUsage, USAGE_ROOTS_MAX } from '@holdfast/client/internal';
import { formatBytes, formatCount, isHash } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { repeated } from '../options.ts';
import { sayCounted } from '../progress/waits.ts';
import { printJson, printTable } from '../terminal/output.ts';
import { findHash, withSource } from '../trees/located-trees.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

const HELP = `
For each tree: the bytes of its files as they are pulled; the stored bytes of the nodes that none of the other trees given
has (OWN), and of those that another has too (SHARED). A node in several places counts once. Removing one of the trees can free
no more than its OWN bytes.

Examples:
  holdfast du HASH
  holdfast du photos@2026-11-21 photos@2026-11-22 photos
  holdfast du photos/2024 photos/2025`;

export function registerDuCommand(program: Command): void {
  const command = program
    .command('du')
    .description('show what trees take, alone and shared')
    .argument(
      '<locations...>',
      LOCATION_HELP,
      repeated(parseLocation, USAGE_ROOTS_MAX, `At most ${USAGE_ROOTS_MAX} at once.`),
    );
  withConnection(command, HELP).action(measure);
}

interface MeasuredTree extends TreeUsage {
  /** as it was given */
  readonly text: string;
}

async function measure(locations: readonly TreeLocation[], flags: ConnectionFlags): Promise<void> {
  const usages = await withSource(flags, locations, async (source, trees): Promise<MeasuredTree[]> => {
    const texts = new Map<Hash, string>();
    // One tree under two names is one tree.
    for (const tree of trees) {
      const hash = await findHash(source, tree);
      if (!texts.has(hash)) texts.set(hash, tree.text);
    }
    const measured = await measureTrees(source, [...texts.keys()], { onCounted: sayCounted() });
    return measured.map((usage) => ({ ...usage, text: texts.get(usage.root) ?? usage.root }));
  }).catch((error: unknown) => {
    if (!(error instanceof RangeError)) throw error;
    throw new CliError(
      `these trees have too many nodes for one count (${error.message}); measure fewer at once`,
    );
  });
  if (flags.json) return printJson(usages.map(describe));
  const isNamed = usages.some(({ text }) => !isHash(text));
  printTable(
    [isNamed ? 'TREE' : 'HASH', 'SIZE', 'OWN', 'SHARED', 'NODES'],
    usages.map(({ text, item, ownBytes, sharedBytes, nodes }) => [
      text,
      ...[item.bytes, ownBytes, sharedBytes].map(formatBytes),
      formatCount(nodes),
    ]),
  );
}

function describe({ root, item, text, ...usage }: MeasuredTree): unknown {
  return {
    tree: text,
    hash: root,
    kind: item.kind,
    bytes: item.bytes,
    entryCount: item.entryCount,
    ...usage,
  };
}
