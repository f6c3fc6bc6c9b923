/** `holdfast snapshots`: what is kept under names. */
import { findSnapshotsOf, readNames, setPinned } from '@holdfast/client/internal';
import type { Command } from 'commander';
import { type ConnectionFlags, withConnection, withShortJob } from '../connection/space-connection.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine, printNote, printTable } from '../terminal/output.ts';
import {
  describeSnapshotCells,
  parseIdValue,
  parseNameValue,
  requireNamesReader,
  requireNamesWriter,
} from '../trees/names.ts';
import { warnOfUnreadable } from '../trees/reference.ts';

const HELP = `
Lists what "holdfast push --name" keeps, oldest first, with times in UTC: of all names of the token's refDomain, or of NAME.
Needs cas:nodes:read, cas:root-refs:read and a token made with --ref-domain.

Wherever a hash is expected, write photos (the latest), photos@2026-11-22 (the last of that day, UTC) or photos@ID, of which
8 digits suffice; each perhaps with a /path.

Examples:
  holdfast snapshots
  holdfast snapshots photos --json
  holdfast snapshots pin 1f0c9e2ab3d44f57`;

const PIN_HELP = `
A pinned snapshot is kept whatever a policy of "holdfast forget" says. Needs cas:nodes:read, cas:nodes:lease,
cas:root-refs:read and cas:root-refs:update.`;

export function registerSnapshotsCommand(program: Command): void {
  const command = program
    .command('snapshots')
    .description('list what is kept under names')
    .argument('[name]', 'only of this name', parseNameValue);
  withConnection(command, HELP).action(list);
  for (const [word, isPinned, description] of [
    ['pin', true, 'keep a snapshot whatever a policy says'],
    ['unpin', false, 'let policies forget it again'],
  ] as const) {
    const sub = command
      .command(word)
      .description(description)
      .argument('<id>', 'the snapshot; 8 digits suffice', parseIdValue);
    withConnection(sub, PIN_HELP).action((id: string, _flags: ConnectionFlags, self: Command) =>
      pin(id, isPinned, self.optsWithGlobals<ConnectionFlags>()),
    );
  }
}

async function list(name: string | undefined, flags: ConnectionFlags): Promise<void> {
  await requireNamesReader(flags);
  const { snapshots, unreadable } = await withShortJob(flags, async ({ patient: client }, progress) => {
    const names = await readNames(client);
    warnOfUnreadable(names, progress);
    return name === undefined ? names : { ...names, snapshots: findSnapshotsOf(names.snapshots, name) };
  });
  if (flags.json) return printJson(snapshots);
  if (snapshots.length === 0) {
    return printNote(
      unreadable.length === 0
        ? 'there is no snapshot yet; make one with: holdfast push PATH --name NAME'
        : 'no list that can be read names anything',
    );
  }
  const hasMessages = snapshots.some(({ message }) => message !== undefined);
  printTable(
    ['NAME', 'ID', 'TIME', 'SIZE', 'FROM', ...(hasMessages ? ['MESSAGE'] : [])],
    snapshots.map((snapshot) => [
      ...describeSnapshotCells(snapshot),
      `${snapshot.host}:${snapshot.path}${snapshot.pinned ? ' (pinned)' : ''}`,
      ...(hasMessages ? [snapshot.message ?? ''] : []),
    ]),
  );
}

async function pin(id: string, isPinned: boolean, flags: ConnectionFlags): Promise<void> {
  sayWhenInterrupted('the snapshot may have been changed already; look with: holdfast snapshots');
  await requireNamesWriter(flags);
  const { snapshot, commit } = await withShortJob(flags, async ({ patient: client }, progress) => {
    const changed = await setPinned(client, id, isPinned);
    warnOfUnreadable(changed.before, progress);
    return changed;
  });
  if (flags.json) return printJson(snapshot);
  const was = commit === undefined ? ' already' : '';
  printLine(`${snapshot.name}@${snapshot.id} is ${isPinned ? 'pinned' : 'not pinned'}${was}`);
}
