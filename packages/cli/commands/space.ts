/** `holdfast space`: Spaces as an operator sees them, without a token of their App. */
import type { Command } from 'commander';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { parsePathIdValue } from '../options.ts';
import { printJson, printLine, printNote, printTable } from '../output.ts';
import { formatBytes, formatCount } from '../progress/format-progress.ts';

type OperatorOutput<N extends import('@holdfast/server').OperationName> =
  import('@holdfast/server').OperatorOutput<N>;

/** of one answer */
const PAGE_SPACES = 1_000;

export function registerSpaceCommand(program: Command): void {
  const space = program
    .command('space')
    .description('the Spaces of all Apps, for the operator of the server; works while servers run');
  registerList(space);
  registerGc(space);
}

function registerList(space: Command): void {
  const command = space
    .command('list')
    .description('list all Spaces with what is stored in them, also those of removed Apps')
    .addHelpText('after', OPERATED_HELP_AFTER);
  withOperator(command).action(async (options: OperatorOptions) => {
    const spaces = await readAll(options);
    if (options.json) printJson(spaces);
    else if (spaces.length === 0) printNote('there is no Space yet: the first write of a client makes one');
    else printTable(['APP', 'SPACE', 'NODES', 'CONTENT', 'STORED', 'RESERVED'], spaces.map(toCells));
  });
}

type Listed = OperatorOutput<'listSpaces'>['spaces'][number];

async function readAll(options: OperatorOptions): Promise<readonly Listed[]> {
  const spaces: Listed[] = [];
  let after: string | undefined;
  do {
    const input = { limit: PAGE_SPACES, ...(after === undefined ? {} : { after }) };
    const page = await runOperation(options, 'listSpaces', input, 'nothing was changed');
    spaces.push(...page.spaces);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return spaces;
}

function toCells({ app, space, usage }: Listed): readonly string[] {
  const { nodeCount, readyContentBytes, readyStoredBytes, reservedBytes } = usage;
  const sizes = [readyContentBytes, readyStoredBytes, reservedBytes].map(formatBytes);
  return [app, space, formatCount(nodeCount), ...sizes];
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
      'what was collected is gone, all else is kept; run the same command again to go on',
    );
    if (options.json) printJson(result);
    else {
      const { examined, deleted, reclaimedContentBytes } = result;
      printLine(
        `examined ${formatCount(examined)}, deleted ${formatCount(deleted)}, reclaimed ${formatBytes(reclaimedContentBytes)}`,
      );
    }
  });
}
