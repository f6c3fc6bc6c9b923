/** `holdfast check`: compares all that a deployment keeps with what is there. */
import { countOf, formatCount } from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CliError } from '../cli-error.ts';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { quietOption } from '../options.ts';
import { printable, printJson, printLine, printNote } from '../terminal/output.ts';

interface CheckOptions extends OperatorOptions {
  readonly repair?: true;
  readonly rehash?: string;
  readonly quiet?: true;
}

type Result = import('@holdfast/server').OperatorOutput<'check'>;

const HELP_AFTER = `
Works while servers run: each Space is judged at one instant. Without --rehash it looks at the presence and length of objects.
--repair corrects counts and marks damaged nodes as rotten, which a new upload heals. It deletes nothing.
Exit codes: 0 nothing found, 1 findings, 2 wrong usage.
${OPERATED_HELP_AFTER}

Examples:
  holdfast check --data /var/lib/holdfast
  holdfast check --rehash 10%              reads a random tenth of all bytes
  holdfast check --repair --rehash all`;

export function registerCheckCommand(program: Command): void {
  const command = program
    .command('check')
    .description('for operators: compare rows, bytes, counts and history, and repair what can be')
    .option('--repair', 'correct counts, and mark what is damaged')
    .addOption(
      new Option('--rehash <share>', 'also read the bytes: all, or a part such as 10%').argParser(parseShare),
    )
    .addOption(quietOption('print no progress'))
    .addHelpText('after', HELP_AFTER);
  withOperator(command).action(async (options: CheckOptions) => {
    const { repair, rehash } = options;
    const result = await runOperation(
      options,
      'check',
      { repair, rehash },
      'repairs are kept; run the same command again to check everything',
      // Asked for even if nobody reads it: a check without progress counts as stalled.
      (line) => {
        if (options.quiet !== true) printNote(printable(line));
      },
    );
    if (options.json) printJson(result);
    else printResult(result);
    if (!result.ok) throw new CliError(describeOutcome(result, options.repair === true));
  });
}

function printResult(result: Result): void {
  for (const { kind, app, space, hash, message, repaired } of result.findings) {
    const where = `${JSON.stringify(app)} ${JSON.stringify(space)}${hash === null ? '' : ` ${hash}`}`;
    printLine(`${kind}  ${where}  ${printable(message)}${repaired ? '  (repaired)' : ''}`);
  }
  const looked = `${countOf(result.checked, 'node')} checked`;
  if (result.unsummed > 0)
    printLine(
      `${countOf(result.unsummed, 'row is', 'rows are')} older than sums: a server that runs proves them and adds theirs`,
    );
  printLine(result.ok ? `${looked}: all is well` : `${looked}: ${countFindings(result)}`);
}

function countFindings({ findings }: Result): string {
  const repaired = findings.filter((finding) => finding.repaired).length;
  return `${countOf(findings.length, 'finding')}, ${formatCount(repaired)} repaired`;
}

function describeOutcome(result: Result, wasToRepair: boolean): string {
  const left = result.findings.filter(({ repaired }) => !repaired).length;
  const rest = wasToRepair
    ? 'each finding that is left says what to do'
    : 'each finding says what to do, or run it with --repair';
  const advice = left === 0 ? 'check again to be sure' : rest;
  return `${countFindings(result)}: ${advice}`;
}

function parseShare(text: string): string {
  const percent = /^([0-9]{1,3})%$/.exec(text)?.[1];
  if (text === 'all' || (percent !== undefined && Number(percent) >= 1 && Number(percent) <= 100))
    return text;
  throw new InvalidArgumentError('It must be all, or a part from 1% to 100%.');
}
