/** `holdfast space`: Spaces as an operator sees them, without a token of their App. */
import { countOf, formatBytes, formatCount } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { type ListedSpace, noteIfUnknown, printCollected, readSpaces } from '../known-spaces.ts';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { parsePathIdValue } from '../options.ts';
import { printJson, printLine, printNote, printTable } from '../terminal/output.ts';
import { ask } from '../terminal/questions.ts';

export function registerSpaceCommand(program: Command): void {
  const space = program
    .command('space')
    .description('the Spaces of all Apps, for the operator of the server; works while servers run');
  registerList(space);
  registerGc(space);
  registerPurge(space);
}

function registerList(space: Command): void {
  const command = space
    .command('list')
    .description('list all Spaces with what is stored in them, also those of removed Apps')
    .addHelpText('after', OPERATED_HELP_AFTER);
  withOperator(command).action(async (options: OperatorOptions) => {
    const spaces = await readSpaces(options);
    if (options.json) printJson(spaces);
    else if (spaces.length === 0) printNote('there is no Space yet: the first write of a client makes one');
    else
      printTable(
        ['APP', 'SPACE', 'NODES', 'CONTENT', 'STORED', 'RESERVED', 'PENDING', 'COMMITS', 'QUOTA'],
        spaces.map(toCells),
      );
    const [first, ...others] = spaces.filter(({ damage }) => damage !== null);
    if (first === undefined) return;
    const name = `Space ${JSON.stringify(first.space)} of App ${JSON.stringify(first.app)}`;
    const more = others.length === 0 ? '' : ` and of ${formatCount(others.length)} more`;
    throw new CliError(`the usage of ${name}${more} cannot be read (${first.damage})`);
  });
}

function toCells({ app, space, usage, pendingBytes, commitRows, quotas }: ListedSpace): readonly string[] {
  const limits = [
    ...(quotas.maxBytes === null ? [] : [formatBytes(quotas.maxBytes)]),
    ...(quotas.maxNodes === null ? [] : [countOf(quotas.maxNodes, 'node')]),
    ...(quotas.maxCommits === null ? [] : [countOf(quotas.maxCommits, 'commit')]),
  ];
  const held = [
    pendingBytes === null ? '?' : formatBytes(pendingBytes),
    commitRows === null ? '?' : formatCount(commitRows),
  ];
  return [app, space, ...toUsageCells(usage), ...held, limits.join(', ') || '-'];
}

function toUsageCells(usage: ListedSpace['usage']): readonly string[] {
  if (usage === null) return ['?', '?', '?', '?'];
  const { nodeCount, readyContentBytes, readyStoredBytes, reservedBytes } = usage;
  return [formatCount(nodeCount), ...[readyContentBytes, readyStoredBytes, reservedBytes].map(formatBytes)];
}

function registerGc(space: Command): void {
  const command = space
    .command('gc')
    .description('collect what nothing keeps in a Space, until nothing is left to collect')
    .argument('<app>', 'the App, also a suspended or removed one', parsePathIdValue)
    .argument('<space>', 'the Space', parsePathIdValue)
    .addHelpText('after', OPERATED_HELP_AFTER);
  withOperator(command).action(async (app: string, spaceId: string, options: OperatorOptions) => {
    const result = await runOperation(
      options,
      'collectSpace',
      { app, space: spaceId },
      'collected nodes are gone, all others are kept; run the same command again to go on',
    );
    printCollected(result, options.json);
    if (result.examined === 0) await noteIfUnknown(options, app, spaceId);
  });
}

interface PurgeOptions extends OperatorOptions {
  readonly confirm?: string;
}

const PURGE_INTERRUPTED = 'removed nodes are gone; run the same command again to go on';

function registerPurge(space: Command): void {
  const command = space
    .command('purge')
    .description('remove everything in a Space of a suspended or removed App, forever')
    .argument('<app>', 'the App, suspended or removed at least 5 s ago', parsePathIdValue)
    .argument('<space>', 'the Space', parsePathIdValue)
    .option('--confirm <space>', "the Space's name again; on a terminal it is asked for")
    .addHelpText('after', OPERATED_HELP_AFTER);
  withOperator(command).action(purge);
}

async function purge(app: string, space: string, options: PurgeOptions): Promise<void> {
  await confirmPurge(app, space, options.confirm);
  let nodes = 0;
  for (let isFinished = false; !isFinished; ) {
    const step = await runOperation(options, 'purgeSpace', { app, space, confirm: space }, PURGE_INTERRUPTED);
    nodes += step.nodes;
    isFinished = step.finished;
    if (!isFinished) printNote(`removed ${countOf(nodes, 'node')}, ${countOf(step.left, 'is', 'are')} left`);
  }
  if (options.json) printJson({ app, space, nodes });
  else
    printLine(
      `removed ${countOf(nodes, 'node')}: Space ${JSON.stringify(space)} of App ${JSON.stringify(app)} is empty`,
    );
}

async function confirmPurge(app: string, space: string, given: string | undefined): Promise<void> {
  if (given === space) return;
  if (given !== undefined) {
    throw new UsageError(
      `--confirm ${JSON.stringify(given)} is not the name of the Space; nothing was removed`,
    );
  }
  if (!process.stdin.isTTY) {
    throw new UsageError(`a purge cannot be undone; confirm it with --confirm ${JSON.stringify(space)}`);
  }
  const typed = await ask(
    `Everything in Space ${JSON.stringify(space)} of App ${JSON.stringify(app)} will be gone. Type the name of the Space: `,
  );
  if (typed !== space) throw new CliError('that is not the name of the Space; nothing was removed');
}
