/** `holdfast explain`: what keeps a node, and until when. */
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { parsePathIdValue } from '../options.ts';
import { printable, printJson, printLine } from '../terminal/output.ts';

interface ExplainOptions extends OperatorOptions {
  readonly app?: string;
  readonly space?: string;
}

type Explanation = import('@holdfast/server').OperatorOutput<'explain'>;
type Keeper = Explanation['keptBy'][number];

const HELP_AFTER = `
Each step up the parents walks over all nodes of the Space: about a second for 100,000 of them.
${OPERATED_HELP_AFTER}

An example:
  holdfast explain 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 --app demo --space home`;

export function registerExplainCommand(program: Command): void {
  const command = program
    .command('explain')
    .description('for operators: say what keeps a node, and when it could be collected')
    .argument('<hash>', 'the node: 64 hexadecimal digits')
    .option('--app <app-id>', 'the App (or HOLDFAST_APP)', parsePathIdValue)
    .option('--space <space-id>', 'the Space (or HOLDFAST_SPACE)', parsePathIdValue)
    .addHelpText('after', HELP_AFTER);
  withOperator(command).action(async (hash: string, options: ExplainOptions) => {
    const app = options.app ?? process.env.HOLDFAST_APP;
    const space = options.space ?? process.env.HOLDFAST_SPACE;
    if (!app || !space) throw new UsageError('explain needs --app APP and --space SPACE');
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      throw new UsageError(`${JSON.stringify(hash)} is no hash: give 64 lowercase hexadecimal digits`);
    }
    const explanation = await runOperation(options, 'explain', { app, space, hash }, 'nothing was changed');
    if (options.json) printJson(explanation);
    else printExplanation(explanation);
  });
}

function printExplanation({ hash, state, keptBy, collectableAt, chain }: Explanation): void {
  printLine(`${hash} is ${state}`);
  if (keptBy.length === 0) printLine('nothing keeps it');
  for (const keeper of keptBy) printLine(`kept by ${describeKeeper(keeper)}`);
  if (chain.length > 1) {
    printLine('the shortest way to what keeps it:');
    for (const [index, { hash: each, keptBy: keepers }] of chain.entries()) {
      const isLast = index === chain.length - 1;
      printLine(`  ${each}${isLast ? `  kept by ${keepers.map(describeKeeper).join(', ')}` : ''}`);
    }
  }
  if (collectableAt === null) printLine('a collection cannot take it while that root ref stands');
  else if (collectableAt <= Date.now()) printLine('a collection may take it now');
  else
    printLine(
      `a collection may take it from ${new Date(collectableAt).toISOString()} on, if nothing is renewed`,
    );
}

function describeKeeper({ kind, until, refDomain, balance, hash }: Keeper): string {
  switch (kind) {
    case 'lease':
      return `a lease until ${new Date(until ?? 0).toISOString()}`;
    case 'root-ref':
      return `a root ref of ${printable(refDomain ?? '')} with balance ${balance}`;
    case 'parent':
      return `its parent ${hash}`;
  }
}
