/** `holdfast edit`: changes the tree of a name without pulling or pushing the rest of it. */
import { hostname } from 'node:os';
import {
  checkMessage,
  EditError,
  editName,
  type Snapshot,
  type TreeEdit,
  TreeFormatError,
} from '@holdfast/client/internal';
import { type Command, InvalidArgumentError } from 'commander';
import { CliError, LeftOutError, UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { parseGivenValue } from '../options.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { type EditRequest, makeEdits, parseEditLines, parseEditWords } from '../trees/edit-requests.ts';
import { parseNameValue, requireNamesWriter } from '../trees/names.ts';

interface Flags extends ConnectionFlags {
  readonly message?: string;
  readonly parents?: true;
  readonly replace?: true;
  readonly fromFile?: string;
}

const HELP = `
Does one edit, or the edits of --from-file all together, on the latest snapshot of NAME (an empty folder if there is none), and keeps the
result as its newest snapshot. Only the folders on the paths are read, and only what changes is sent. Prints the hash of the tree as the
last line on stdout. If others edit NAME meanwhile, the edit is done on what they made.

  put FILE PATH     FILE is a file, a link, a folder (stored as push does) or - for stdin; replaces a file or link,
                    a folder only with --replace
  rm PATH           with all below it
  mv FROM TO, cp FROM TO, mkdir PATH, ln TARGET PATH     nothing may be there yet

A PATH is names joined by single /, none at either end. The lines of --from-file (- is stdin) are JSON objects:
  {"op":"put","path":"a/b","file":"./b"}    {"op":"rm","path":"a"}       {"op":"mkdir","path":"a"}
  {"op":"mv","from":"a","to":"b"}           {"op":"cp","from":"a","to":"b"}
  {"op":"ln","target":"b","path":"a"}

Needs what "holdfast push --name" needs.

Examples:
  holdfast edit notes put ./today.md diary/today.md --parents --message "from the phone"
  holdfast edit notes mv diary old
  date | holdfast edit notes put - stamp`;

export function registerEditCommand(program: Command): void {
  const command = program
    .command('edit')
    .description('change files of a name in place: put, rm, mv, cp, mkdir, ln')
    .argument('<name>', 'whose latest snapshot is edited', parseNameValue)
    .argument('[edit-and-paths...]', 'put, rm, mv, cp, mkdir or ln, and what it takes')
    .option('--message <text>', 'kept with the snapshot, at most 1024 bytes', parseMessage)
    .option('--parents', 'make missing folders; with mkdir, one that is there is done')
    .option('--replace', 'let put replace a folder')
    .option('--from-file <file>', 'edits as JSON lines instead; - is stdin', parseGivenValue);
  withConnection(command, HELP).action(edit);
}

function parseMessage(text: string): string {
  try {
    return checkMessage(parseGivenValue(text)) ?? text;
  } catch (error) {
    throw error instanceof InvalidArgumentError ? error : new InvalidArgumentError((error as Error).message);
  }
}

async function edit(name: string, words: readonly string[], flags: Flags): Promise<void> {
  if (flags.fromFile !== undefined && words.length > 0) {
    throw new UsageError('--from-file has all edits: leave the words after NAME out');
  }
  const requests =
    flags.fromFile === undefined ? [parseEditWords(words)] : await parseEditLines(flags.fromFile);
  await requireNamesWriter(flags);
  sayWhenInterrupted(`the edit may have been done already; look with: holdfast snapshots ${name}`);
  const { leftOut, requestCount, ...edited } = await run(name, requests, flags);
  const { root, snapshot, entries, sentNodes, sentBytes } = edited;
  if (flags.json) printJson({ root, snapshot, entries, sentNodes, sentBytes, requests: requestCount });
  else {
    printNote(`kept as ${snapshot.name}@${snapshot.id}`);
    printLine(root);
  }
  if (leftOut > 0) throw new LeftOutError('what is named above was left out, and all the rest is stored');
}

interface Done {
  readonly root: string;
  readonly snapshot: Snapshot;
  readonly entries: number;
  readonly sentNodes: number;
  readonly sentBytes: number;
  readonly leftOut: number;
  readonly requestCount: number;
}

async function run(name: string, requests: readonly EditRequest[], flags: Flags): Promise<Done> {
  let requestCount = 0;
  const onRequest = (): void => {
    requestCount += 1;
  };
  return withClient(
    flags,
    async (client, progress) => {
      const { edits, leftOut } = await makeEdits(client, requests, { replace: flags.replace, progress });
      const options = { message: flags.message, parents: flags.parents, host: hostname().toWellFormed() };
      const edited = await editName(client, name, edits, options).catch((error: unknown) => {
        throw explain(error, name, edits, flags);
      });
      return { ...edited, leftOut, requestCount };
    },
    { onRequest },
  );
}

function explain(error: unknown, name: string, edits: readonly TreeEdit[], flags: Flags): unknown {
  if (error instanceof EditError) {
    const which = edits.length === 1 ? '' : `line ${error.index + 1}: `;
    const advice = adviceFor(error, edits[error.index], flags);
    return new CliError(`${which}${error.message}; nothing was changed${advice}`, { cause: error });
  }
  if (error instanceof TreeFormatError) {
    const message = `the latest snapshot of ${name} cannot be edited as a folder: ${error.message}; nothing was changed`;
    return new CliError(message, { cause: error });
  }
  return error;
}

function adviceFor({ code }: EditError, edit: TreeEdit | undefined, { parents }: Flags): string {
  if (code === 'NO_PARENT' && !parents) return '; --parents makes missing folders';
  const isPut = edit?.op === 'set' && edit.replace === undefined;
  return code === 'EXISTS' && isPut ? '; --replace lets put replace a folder' : '';
}
