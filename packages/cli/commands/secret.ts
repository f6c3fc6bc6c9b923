/** `holdfast secret`: what servers sign upload URLs and cursors with. */
import { type Command, Option } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { sayWhenInterrupted } from '../interruption.ts';
import { dataOption, jsonOption } from '../options.ts';
import { printJson, printLine } from '../output.ts';
import { saying } from '../waits.ts';

interface RotateOptions {
  readonly data?: string;
  readonly metadata?: string;
  readonly json?: true;
}

const HELP_AFTER = `
Servers that run take the new secret up by themselves; after 10 s they sign with it. What the former one signed stays good
for 8 days, longer than any upload URL lives. The secret itself is never shown.`;

export function registerSecretCommand(program: Command): void {
  program
    .command('secret')
    .description('the secret that signs upload URLs and cursors')
    .command('rotate')
    .description(
      'sign with a new secret; what was signed before stays good for 8 days; works while servers run',
    )
    .addOption(dataOption())
    .addOption(
      new Option(
        '--metadata <url>',
        'database of servers that share one, postgres://… (or HOLDFAST_METADATA)',
      ).conflicts('data'),
    )
    .addOption(jsonOption())
    .addHelpText('after', HELP_AFTER)
    .action(rotate);
}

async function rotate(options: RotateOptions): Promise<void> {
  sayWhenInterrupted('whether the secret was rotated is not known; run the same command again to rotate it');
  const server = await import('@holdfast/server');
  try {
    const place = server.parseRowsPlace(options, process.env);
    const rotation = await saying(`no answer yet from ${server.nameRows(place)}`, () =>
      server.rotateSecret(place),
    );
    if (options.json) return printJson(rotation);
    const [from, until] = [rotation.signsFromAt, rotation.formerGoodUntilAt].map((at) =>
      new Date(at).toISOString(),
    );
    printLine(`rotated: the new secret signs from ${from}; what was signed before stays good until ${until}`);
  } catch (error) {
    if (error instanceof server.ConfigError) throw new UsageError(error.message);
    throw error instanceof server.ServeError ? new CliError(error.message) : error;
  }
}
