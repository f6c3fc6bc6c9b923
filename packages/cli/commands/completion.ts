/** `holdfast completion`: what a shell needs to complete the words of every command. */
import { Argument, type Command } from 'commander';
import { listCommandWords } from '../completion/command-words.ts';
import { SHELLS, type Shell, writeCompletion } from '../completion/shell-scripts.ts';
import { jsonOption } from '../options.ts';
import { printJson } from '../terminal/output.ts';

const HELP = `
To use it in this shell, or from its start-up file:
  source <(holdfast completion bash)
  source <(holdfast completion zsh)
  holdfast completion fish | source`;

export function registerCompletionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands, options and files in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((shell: Shell, flags: { readonly json?: true }) => {
      const script = writeCompletion(shell, listCommandWords(program));
      if (flags.json) printJson({ shell, script });
      else process.stdout.write(script);
    });
}
