/** `holdfast space`: Spaces as an operator sees them, without a token of their App. */
import type { Command } from 'commander';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { parsePathIdValue } from '../options.ts';
import { printJson, printLine } from '../output.ts';
import { formatBytes, formatCount } from '../progress/format-progress.ts';

export function registerSpaceCommand(program: Command): void {
  const space = program
    .command('space')
    .description('the Spaces of all Apps, for the operator of the server; works while servers run');
  registerGc(space);
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
