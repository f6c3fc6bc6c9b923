/** `holdfast diff`: what differs between two trees. */

import {
  type Difference,
  diffWithRenames,
  formatPath,
  type ProgressReporter,
  pathBytes,
  type Rename,
  type TreePath,
} from '@holdfast/client/internal';
import { countOf, formatBytes, formatCount } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { JsonListWriter, writeLineSlowly } from '../json-stream.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { describeItem, findLocation, withSource } from '../trees/located-trees.ts';
import { describeName } from '../trees/names.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

interface DiffFlags extends ConnectionFlags {
  readonly stat?: true;
}

const HELP = `
One line for each difference: A added, D removed (a directory with all below it), M modified, R renamed (OLD → NEW: the same
content stood elsewhere; a directory in one line). Only directories that differ are read. --stat says only how many of each
there are. Ends with 0 whether there are differences or not.

Examples:
  holdfast diff OLD NEW
  holdfast diff OLD NEW --stat
  holdfast diff OLD/src NEW/src --json`;

export function registerDiffCommand(program: Command): void {
  const command = program
    .command('diff')
    .description('compare two trees')
    .argument('<before>', LOCATION_HELP, parseLocation)
    .argument('<after>', LOCATION_HELP, parseLocation)
    .option('--stat', 'only how many entries and bytes differ');
  withConnection(command, HELP).action(compare);
}

type Shown = Difference | Rename;

const LETTERS: Readonly<Record<Shown['type'], string>> = {
  added: 'A',
  removed: 'D',
  modified: 'M',
  renamed: 'R',
};

async function compare(before: TreeLocation, after: TreeLocation, flags: DiffFlags): Promise<void> {
  const counts = { added: 0, removed: 0, modified: 0, renamed: 0 };
  const bytes = { addedBytes: 0, removedBytes: 0 };
  await withSource(flags, [before, after], async (source, [old, now], progress) => {
    const [from, to] = [await findLocation(source, old), await findLocation(source, now)];
    const said = new ComparedSoFar(progress);
    const json = flags.json && !flags.stat ? new JsonListWriter('differences') : undefined;
    const onCompared = (path: TreePath | undefined): void => said.compared(path);
    for await (const difference of diffWithRenames(source, from, to, { onCompared })) {
      counts[difference.type] += 1;
      said.differs(difference.path);
      bytes.addedBytes += countBytes(difference, 'added');
      bytes.removedBytes += countBytes(difference, 'removed');
      if (json !== undefined) await json.add(describe(difference));
      else if (!flags.stat) await writeLineSlowly(formatDifference(difference));
    }
    json?.end({ ...counts, ...bytes });
  });
  if (flags.json) {
    if (flags.stat) printJson({ ...counts, ...bytes });
    return;
  }
  const summary = summarize(counts, bytes);
  if (flags.stat) printLine(summary);
  else printNote(summary);
}

/** Two trees of few nodes may differ in more entries than anyone can wait for: the command then fails with a message. */
export class ComparedSoFar {
  readonly #progress: Pick<ProgressReporter, 'warn'>;
  readonly #most: number;
  #saidAt = performance.now();
  #directories = 0;
  #differences = 0;

  /** `most`: folders and differences. No folder on a disk has so many, but a few nodes that stand in many places can. */
  constructor(progress: Pick<ProgressReporter, 'warn'>, most = 100_000_000) {
    this.#progress = progress;
    this.#most = most;
  }

  compared(path: TreePath | undefined): void {
    this.#directories += 1;
    this.#saySometimes(path);
  }

  differs(path: TreePath | undefined): void {
    this.#differences += 1;
    this.#saySometimes(path);
  }

  /** Throws CliError when it is too much. */
  #saySometimes(path: TreePath | undefined): void {
    if (this.#directories + this.#differences > this.#most) {
      throw new CliError(
        `the trees differ in more than ${formatCount(this.#most)} entries, because few nodes stand in very many places; compare a part of them: TREE/PATH`,
      );
    }
    if (performance.now() - this.#saidAt < 10_000) return;
    this.#saidAt = performance.now();
    const so = `${countOf(this.#directories, 'folder')} compared, ${countOf(this.#differences, 'difference')} told`;
    this.#progress.warn(`still comparing: ${so}; now at ${formatPath(path)}`);
  }
}

type Counts = Readonly<Record<Shown['type'], number>>;

function summarize(
  counts: Counts,
  { addedBytes, removedBytes }: { readonly addedBytes: number; readonly removedBytes: number },
): string {
  const entries = (['added', 'removed', 'modified', 'renamed'] as const).map(
    (type) => `${formatCount(counts[type])} ${type}`,
  );
  return `${entries.join(', ')}; ${formatBytes(addedBytes)} more, ${formatBytes(removedBytes)} less`;
}

/** Counts files and links only; a directory is the sum of its own. */
function countBytes({ type, before, after, aspects }: Shown, change: 'added' | 'removed'): number {
  // Neither the place nor the mode or time of an entry adds bytes.
  const isOfContent = aspects.includes('content') || aspects.includes('kind');
  if (type === 'renamed' || (type === 'modified' && !isOfContent)) return 0;
  const item = change === 'added' ? after : before;
  return item === undefined || item.kind === 'directory' ? 0 : item.bytes;
}

function formatDifference(difference: Shown): string {
  const { type, path, before, after, aspects } = difference;
  const slash = (after ?? before)?.kind === 'directory' ? '/' : '';
  // Aspects other than the content are named.
  const others = aspects.filter((aspect) => aspect !== 'content');
  const note = others.length === 0 ? '' : ` (${others.join(', ')})`;
  const from = difference.type === 'renamed' ? `${formatPath(difference.from)}${slash} → ` : '';
  return `${LETTERS[type]} ${from}${formatPath(path)}${slash}${note}`;
}

function describe(difference: Shown): unknown {
  const { type, path, before, after, aspects } = difference;
  return {
    type,
    ...describeName('path', pathBytes(path)),
    ...(difference.type === 'renamed' ? describeName('from', pathBytes(difference.from)) : {}),
    ...(type === 'modified' ? { aspects } : {}),
    ...(before === undefined ? {} : { before: describeItem(before) }),
    ...(after === undefined ? {} : { after: describeItem(after) }),
  };
}
