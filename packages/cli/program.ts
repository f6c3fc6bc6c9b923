/** The tree of commands. To add one: write `commands/<name>.ts` and add its `register…` to `COMMANDS`. */
import { Command } from 'commander';
import { registerAppCommand } from './commands/app.ts';
import { registerBundleCommand } from './commands/bundle.ts';
import { registerCatCommand } from './commands/cat.ts';
import { registerCompletionCommand } from './commands/completion.ts';
import { registerDiffCommand } from './commands/diff.ts';
import { registerDuCommand } from './commands/du.ts';
import { registerForgetCommand, registerUnforgetCommand } from './commands/forget.ts';
import { registerGcCommand } from './commands/gc.ts';
import { registerKeyCommand } from './commands/key.ts';
import { registerLoginCommand, registerLogoutCommand, registerProfilesCommand } from './commands/login.ts';
import { registerLsCommand } from './commands/ls.ts';
import { registerMigrateCommand } from './commands/migrate.ts';
import { registerNodeCommand } from './commands/node.ts';
import { registerPullCommand } from './commands/pull.ts';
import { registerPushCommand } from './commands/push.ts';
import { registerRefsCommand } from './commands/refs.ts';
import { registerServeCommand } from './commands/serve.ts';
import { registerSnapshotsCommand } from './commands/snapshots.ts';
import { registerTokenCommand } from './commands/token.ts';
import { registerTreeCommand } from './commands/tree.ts';
import { registerUsageCommand } from './commands/usage.ts';
import { registerVerifyCommand } from './commands/verify.ts';
import { parseGivenValue } from './options.ts';
import cliPackage from './package.json' with { type: 'json' };
import { explainUsage } from './usage-words.ts';

/** In the order `--help` shows them. Each adds its command, with options, help and action, to the program. */
const COMMANDS: readonly ((program: Command) => void)[] = [
  registerServeCommand,
  registerAppCommand,
  registerMigrateCommand,
  registerKeyCommand,
  registerTokenCommand,
  registerLoginCommand,
  registerLogoutCommand,
  registerProfilesCommand,
  registerPushCommand,
  registerPullCommand,
  registerLsCommand,
  registerCatCommand,
  registerTreeCommand,
  registerDiffCommand,
  registerVerifyCommand,
  registerDuCommand,
  registerSnapshotsCommand,
  registerForgetCommand,
  registerUnforgetCommand,
  registerBundleCommand,
  registerNodeCommand,
  registerRefsCommand,
  registerUsageCommand,
  registerGcCommand,
  registerCompletionCommand,
];

const HELP_AFTER = `
Durations are an integer and a unit: 500ms, 30s, 5m, 24h, 7d. Sizes are bytes, or an integer and KiB to TiB or kB to TB.
Exit codes: 0 done, 1 failed (one line on stderr says what and what to do), 2 wrong usage.

A first walk:
  holdfast serve --dev                 prints four lines to paste into another terminal; then there:
  holdfast push ./notes --name notes   edit something, and push again: only what changed travels
  holdfast snapshots
  holdfast pull notes ./copy

With an App and keys of your own instead of the demo's:
  holdfast serve
  holdfast key new --out private.jwk --jwks public.json
  holdfast app add walk --issuer https://issuer.example --audience holdfast --jwks-file public.json
  holdfast token --key private.jwk --issuer https://issuer.example --audience holdfast --space home --ref-domain walk \\
    --permission cas:nodes:read,cas:nodes:lease,cas:root-refs:read,cas:root-refs:update | holdfast login walk \\
    --url http://127.0.0.1:8420 --app walk --space home`;

/** The whole command line. Parsing errors throw CommanderError; actions throw CliError. */
export function buildProgram(): Command {
  const program = new Command('holdfast')
    .description('Self-hosted, multi-tenant content-addressed storage: server, administration and client.')
    .version(cliPackage.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show help for a command')
    .addHelpText('after', HELP_AFTER)
    .configureHelp({ showGlobalOptions: false })
    .exitOverride();
  for (const register of COMMANDS) register(program);
  finish(program);
  return program;
}

/** What every command has, whoever wrote it. */
function finish(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => write(`holdfast: ${explainUsage(text, command)}\n`),
  });
  refuseEmptyValues(command);
  for (const sub of command.commands) finish(sub);
}

/**
 * An empty path would be the working directory, an empty name nothing: the mark of a variable that was not set. Values with a
 * parser of their own are judged there.
 */
function refuseEmptyValues(command: Command): void {
  const taking = command.options.filter(({ required, optional }) => required || optional);
  for (const value of [...taking, ...command.registeredArguments]) {
    if (value.parseArg === undefined && !value.variadic) value.argParser(parseGivenValue);
  }
}

/** `--permission=a b` as `--permission a b`: commander lets following words belong only to a value that is a word itself. */
export function separateVariadicValues(program: Command, args: readonly string[]): readonly string[] {
  const variadic = new Set(findVariadicFlags(program));
  const end = args.indexOf('--');
  return args.flatMap((arg, index) => {
    const at = arg.indexOf('=');
    const isSeparable = (end === -1 || index < end) && at !== -1 && variadic.has(arg.slice(0, at));
    return isSeparable ? [arg.slice(0, at), arg.slice(at + 1)] : [arg];
  });
}

/** `help app add` as `app add --help`: commander's own help looks one word deep, and passes over what it does not know. */
export function expandHelp(program: Command, args: readonly string[]): readonly string[] {
  const [help, ...names] = args;
  if (help !== 'help' || names.length === 0 || names.some((name) => name.startsWith('-'))) return args;
  let command = program;
  for (const [index, name] of names.entries()) {
    const next = command.commands.find((sub) => sub.name() === name);
    // Only a command that has others says which it does not know; what follows one that does something is not for help.
    if (next === undefined) return command.commands.length > 0 ? names.slice(0, index + 1) : helpOf(index);
    command = next;
  }
  return helpOf(names.length);

  function helpOf(length: number): readonly string[] {
    return [...names.slice(0, length), '--help'];
  }
}

function findVariadicFlags(command: Command): string[] {
  const own = command.options.flatMap(({ variadic, long }) => (variadic && long ? [long] : []));
  return [...own, ...command.commands.flatMap(findVariadicFlags)];
}
