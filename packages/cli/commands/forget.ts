/** `holdfast forget` and `unforget`: which snapshots stay. */
import {
  decideForgetting,
  type Forgetting,
  forgetSnapshots,
  type Hash,
  type Retention,
  type RetentionPolicy,
  readNames,
  type Snapshot,
  unforgetSnapshot,
} from '@holdfast/client/internal';
import { countOf, formatBytes } from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { restating, UsageError } from '../cli-error.ts';
import {
  type ConnectionFlags,
  describeScope,
  withConnection,
  withShortJob,
} from '../connection/space-connection.ts';
import { parseDurationValue, parseHashValue, parsePositiveValue } from '../options.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine, printNote, printTable } from '../terminal/output.ts';
import { findForgotten, rememberForgotten } from '../trees/forgotten-snapshots.ts';
import { type Freed, measureFreed } from '../trees/freed-bytes.ts';
import {
  describeSnapshotCells,
  looksLikeId,
  parseIdValue,
  parseNameValue,
  requireNamesReader,
  requireNamesWriter,
} from '../trees/names.ts';
import { warnOfUnreadable } from '../trees/reference.ts';

interface ForgetFlags extends ConnectionFlags {
  readonly all?: true;
  readonly keepLast?: number;
  readonly keepWithin?: number;
  readonly keepDaily?: number;
  readonly keepWeekly?: number;
  readonly keepMonthly?: number;
  readonly dryRun?: true;
}

const HELP = `
Takes snapshots off the list, so that a collection (holdfast gc) can free what no other keeps: every snapshot of NAME, or those
that no rule keeps, or the ones given by ID. A snapshot that any rule keeps is kept. Days, weeks (from Monday) and months are
those of UTC; ones without a snapshot are not counted, and the newest of each is kept. While there are fewer than a rule
counts, the oldest snapshot is kept too. Pinned snapshots are kept, also from --all.

Says what a collection will free, and when. Until then: holdfast unforget ID.
Needs cas:nodes:read, cas:nodes:lease, cas:root-refs:read and cas:root-refs:update; with --dry-run only the two to read.

Examples:
  holdfast forget photos --keep-last 3 --keep-daily 7 --keep-weekly 4 --keep-monthly 12 --dry-run
  holdfast forget photos --keep-within 30d
  holdfast forget 1f0c9e2ab3d44f57`;

export function registerForgetCommand(program: Command): void {
  const command = program
    .command('forget')
    .description('take snapshots off the list, by a policy or by their ids')
    .argument('<name-or-ids...>', 'a name, or ids of snapshots, of which 8 digits suffice')
    .addOption(
      new Option('--all', 'every snapshot of the name').conflicts([
        'keepLast',
        'keepWithin',
        'keepDaily',
        'keepWeekly',
        'keepMonthly',
      ]),
    )
    .option('--keep-last <n>', 'keep the newest N', parsePositiveValue())
    .option('--keep-within <duration>', 'keep what is not older than this', parseDurationValue)
    .option(
      '--keep-daily <n>',
      'keep the newest snapshot of each day, for this many days',
      parsePositiveValue(),
    )
    .option(
      '--keep-weekly <n>',
      'keep the newest snapshot of each week, for this many weeks',
      parsePositiveValue(),
    )
    .option(
      '--keep-monthly <n>',
      'keep the newest snapshot of each month, for this many months',
      parsePositiveValue(),
    )
    .option('--dry-run', 'only say what would be forgotten');
  withConnection(command, HELP).action(forget);
}

async function forget(targets: readonly string[], flags: ForgetFlags): Promise<void> {
  const forgetting = readForgetting(targets, flags);
  sayWhenInterrupted(
    flags.dryRun
      ? NOTHING_CHANGED
      : 'the list is changed as a whole or not at all; look with: holdfast snapshots',
  );
  if (flags.dryRun) await requireNamesReader(flags);
  else await requireNamesWriter(flags);
  const scope = await describeScope(flags);
  const { freed, ...retention } = await withShortJob(flags, async ({ patient: client }, progress) => {
    const decided = flags.dryRun
      ? await readNames(client).then((before) => ({
          before,
          commit: undefined,
          ...decideForgetting(before.snapshots, forgetting, Date.now()),
        }))
      : await forgetSnapshots(client, forgetting);
    const { before, commit, kept, forgotten } = decided;
    warnOfUnreadable(before, progress);
    const gone = new Set(forgotten.map(({ id }) => id));
    const left = before.snapshots.filter(({ id }) => !gone.has(id));
    if (commit !== undefined && !rememberForgotten(scope, forgotten)) {
      progress.warn(
        `the cache folder cannot be written; to take something back: holdfast unforget ID --from ${commit.replaced[0]}`,
      );
    }
    return { kept, forgotten, freed: await measureFreed(client, forgotten, left, progress) };
  });
  if (flags.json) return printJson({ forgotten: retention.forgotten, kept: retention.kept, freed });
  printRetention(retention);
  printNote(summarize(retention, freed, flags.dryRun === true));
}

function readForgetting(targets: readonly string[], flags: ForgetFlags): Forgetting {
  const { all, keepLast, keepWithin, keepDaily, keepWeekly, keepMonthly } = flags;
  const policy: RetentionPolicy = {
    last: keepLast,
    withinMs: keepWithin,
    daily: keepDaily,
    weekly: keepWeekly,
    monthly: keepMonthly,
  };
  const hasRule = Object.values(policy).some((rule) => rule !== undefined);
  if (targets.some(looksLikeId)) {
    if (all || hasRule)
      throw new UsageError('ids name what is forgotten: give a name with --all or --keep-…');
    return { idPrefixes: targets.map((text) => asUsage(() => parseIdValue(text))) };
  }
  const [name, ...more] = targets.map((text) => asUsage(() => parseNameValue(text)));
  if (name === undefined || more.length > 0) throw new UsageError('give one name, or ids of snapshots');
  if (all) return { name, all };
  if (!hasRule) {
    throw new UsageError(
      `say which snapshots of ${name} stay, such as --keep-last 3 or --keep-daily 7, or --all to forget all of it; --dry-run shows what would go`,
    );
  }
  return { name, policy };
}

/** The arguments are names or ids, which only all of them together tell. */
const asUsage = <T>(parse: () => T): T => restating(parse, InvalidArgumentError, UsageError);

function printRetention({ kept, forgotten }: Retention): void {
  const rows = [
    ...kept.map((snapshot) => ({ verb: 'keep', snapshot })),
    ...forgotten.map((snapshot) => ({ verb: 'forget', snapshot })),
  ].sort((a, b) => a.snapshot.time - b.snapshot.time);
  if (rows.length === 0) return;
  printTable(
    ['', 'NAME', 'ID', 'TIME', 'SIZE', 'WHY'],
    rows.map(({ verb, snapshot }) => [verb, ...describeSnapshotCells(snapshot), snapshot.reasons.join(', ')]),
  );
}

function summarize({ kept, forgotten }: Retention, freed: Freed, isDryRun: boolean): string {
  if (forgotten.length === 0)
    return `nothing to forget: ${countOf(kept.length, 'snapshot stays', 'snapshots stay')}`;
  const what = `${isDryRun ? 'would forget' : 'forgot'} ${countOf(forgotten.length, 'snapshot')}`;
  const back = isDryRun ? '' : '. To take one back before a collection does: holdfast unforget ID';
  return `${what}; ${describeFreed(freed)}${back}`;
}

function describeFreed({ bytes, at, heldTrees, reason }: Freed): string {
  if (bytes === undefined) return `how much a collection will free is not known: ${reason}`;
  const held =
    heldTrees === 0
      ? ''
      : `; ${countOf(heldTrees, 'tree of them has a root ref and stays', 'trees of them have a root ref and stay')}`;
  if (bytes === 0 || at === undefined)
    return `a collection will free nothing: the same nodes are kept elsewhere${held}`;
  const when =
    at <= Date.now()
      ? 'a minute from now'
      : `after ${new Date(at).toISOString()}, when the last lease has ended`;
  return `a collection will free up to ${formatBytes(bytes)}, ${when}: holdfast gc --all${held}`;
}

interface UnforgetFlags extends ConnectionFlags {
  readonly from?: Hash;
}

const UNFORGET_HELP = `
Puts a forgotten snapshot back on the list, as long as no collection took its tree or the list it was forgotten from.
Needs cas:nodes:read, cas:nodes:lease, cas:root-refs:read and cas:root-refs:update.

Example:
  holdfast unforget 1f0c9e2ab3d44f57`;

export function registerUnforgetCommand(program: Command): void {
  const command = program
    .command('unforget')
    .description('take a forgotten snapshot back')
    .argument('<id>', 'the snapshot; 8 digits suffice', parseIdValue)
    .option('--from <catalog>', 'look in this list too, by its hash', parseHashValue);
  withConnection(command, UNFORGET_HELP).action(unforget);
}

async function unforget(id: string, flags: UnforgetFlags): Promise<void> {
  sayWhenInterrupted('the list is changed as a whole or not at all; look with: holdfast snapshots');
  await requireNamesWriter(flags);
  const scope = await describeScope(flags);
  const former = flags.from === undefined ? [] : [flags.from];
  const known = findForgotten(scope);
  const { snapshot, commit } = await withShortJob(flags, async ({ patient: client }, progress) => {
    const changed = await unforgetSnapshot(client, id, { former, known });
    warnOfUnreadable(changed.before, progress);
    return changed;
  });
  if (flags.json) return printJson(snapshot);
  printLine(describeUnforgotten(snapshot, commit !== undefined));
}

function describeUnforgotten({ name, id }: Snapshot, isChanged: boolean): string {
  return isChanged ? `${name}@${id} is kept again` : `${name}@${id} was never forgotten`;
}
