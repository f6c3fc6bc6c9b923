/** `holdfast secret`: what servers sign upload URLs and cursors with. */
import type { Command } from 'commander';
import { type PartOptions, runPartOperation, withRowsPlace } from '../operator-call.ts';
import { jsonOption } from '../options.ts';
import { printJson, printLine } from '../terminal/output.ts';

const HELP_AFTER = `
Servers that run take the new secret up by themselves; after 10 s they sign with it. URLs signed by the former one stay valid
for 8 days, longer than any upload URL lives. The secret itself is never shown.`;

export function registerSecretCommand(program: Command): void {
  const command = program
    .command('secret')
    .description('the secret that signs upload URLs and cursors')
    .command('rotate')
    .description('sign with a new secret; earlier URLs stay valid for 8 days; works while servers run')
    .addHelpText('after', HELP_AFTER);
  withRowsPlace(command).addOption(jsonOption()).action(rotate);
}

async function rotate(options: PartOptions): Promise<void> {
  const rotation = await runPartOperation(
    options,
    'rotateSecret',
    {},
    'whether the secret was rotated is not known; run the same command again to rotate it',
  );
  if (options.json) return printJson(rotation);
  const [from, until] = [rotation.signsFromAt, rotation.formerGoodUntilAt].map((at) =>
    new Date(at).toISOString(),
  );
  printLine(`rotated: the new secret signs from ${from}; earlier URLs stay valid until ${until}`);
}
