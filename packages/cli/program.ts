/** The tree of commands; add one by its `register…` in `COMMANDS`. Only a command's own modules are loaded: it starts twice as fast. */
import { Command } from 'commander';
import { parseGivenValue } from './options.ts';
import cliPackage from './package.json' with { type: 'json' };
import { findColumns, wrapHelp } from './terminal/wrap-help.ts';
import { explainUsage } from './usage-words.ts';

type Register = (program: Command) => void;

const OTHER_COMMANDS = 'Other:';

/** In the order `--help` shows them, in groups, by name. Each adds its command, with options, help and action, to the program. */
const GROUPS: readonly (readonly [string, Readonly<Record<string, () => Promise<Register>>>])[] = [
  [
    'Folders and files:',
    {
      push: async () => (await import('./commands/push.ts')).registerPushCommand,
      pull: async () => (await import('./commands/pull.ts')).registerPullCommand,
      ls: async () => (await import('./commands/ls.ts')).registerLsCommand,
      cat: async () => (await import('./commands/cat.ts')).registerCatCommand,
      tree: async () => (await import('./commands/tree.ts')).registerTreeCommand,
      diff: async () => (await import('./commands/diff.ts')).registerDiffCommand,
      verify: async () => (await import('./commands/verify.ts')).registerVerifyCommand,
      du: async () => (await import('./commands/du.ts')).registerDuCommand,
    },
  ],
  [
    'Names:',
    {
      edit: async () => (await import('./commands/edit.ts')).registerEditCommand,
      snapshots: async () => (await import('./commands/snapshots.ts')).registerSnapshotsCommand,
      forget: async () => (await import('./commands/forget.ts')).registerForgetCommand,
      unforget: async () => (await import('./commands/forget.ts')).registerUnforgetCommand,
      copy: async () => (await import('./commands/copy.ts')).registerCopyCommand,
    },
  ],
  [
    'Doors:',
    {
      mount: async () => (await import('./commands/mount.ts')).registerMountCommand,
      gateway: async () => (await import('./commands/gateway.ts')).registerGatewayCommand,
      mcp: async () => (await import('./commands/mcp.ts')).registerMcpCommand,
    },
  ],
  [
    'Connections:',
    {
      login: async () => (await import('./commands/login.ts')).registerLoginCommand,
      logout: async () => (await import('./commands/login.ts')).registerLogoutCommand,
      profiles: async () => (await import('./commands/login.ts')).registerProfilesCommand,
    },
  ],
  [
    'Nodes:',
    {
      node: async () => (await import('./commands/node.ts')).registerNodeCommand,
      refs: async () => (await import('./commands/refs.ts')).registerRefsCommand,
      bundle: async () => (await import('./commands/bundle.ts')).registerBundleCommand,
      usage: async () => (await import('./commands/usage.ts')).registerUsageCommand,
      gc: async () => (await import('./commands/gc.ts')).registerGcCommand,
    },
  ],
  [
    'Server and tenants:',
    {
      serve: async () => (await import('./commands/serve.ts')).registerServeCommand,
      config: async () => (await import('./commands/config.ts')).registerConfigCommand,
      app: async () => (await import('./commands/app.ts')).registerAppCommand,
      space: async () => (await import('./commands/space.ts')).registerSpaceCommand,
      key: async () => (await import('./commands/key.ts')).registerKeyCommand,
      token: async () => (await import('./commands/token.ts')).registerTokenCommand,
    },
  ],
  [
    'Operating:',
    {
      check: async () => (await import('./commands/check.ts')).registerCheckCommand,
      explain: async () => (await import('./commands/explain.ts')).registerExplainCommand,
      backup: async () => (await import('./commands/backup.ts')).registerBackupCommand,
      restore: async () => (await import('./commands/backup.ts')).registerRestoreCommand,
      migrate: async () => (await import('./commands/migrate.ts')).registerMigrateCommand,
      'accept-restore': async () =>
        (await import('./commands/accept-restore.ts')).registerAcceptRestoreCommand,
      console: async () => (await import('./commands/console.ts')).registerConsoleCommand,
      secret: async () => (await import('./commands/secret.ts')).registerSecretCommand,
    },
  ],
  [
    OTHER_COMMANDS,
    {
      completion: async () => (await import('./commands/completion.ts')).registerCompletionCommand,
    },
  ],
];

const COMMANDS = new Map(GROUPS.flatMap(([, commands]) => Object.entries(commands)));

const HELP_AFTER = `
Durations are an integer and a unit: 500ms, 30s, 5m, 24h, 7d. Sizes are bytes, or an integer and KiB to TiB or kB to TB.

Exit codes: 0 done, 1 failed (one line on stderr says what and what to do), 2 wrong usage,
3 done, but something was left out (each named on stderr).

Coming from other tools: init is serve and login, backup is push, restore is pull, prune is gc, stats is usage and du.

A first walk:
  holdfast serve --dev                 and in another terminal:
  holdfast push ./notes --name notes   edit something, and push again: only what changed travels
  holdfast snapshots
  holdfast pull notes ./copy

With an App and keys of your own instead of the demo's:
  holdfast serve
  holdfast key new --out private.jwk --jwks public.json
  holdfast app add walk --issuer https://issuer.example --audience holdfast \\
    --jwks-file public.json
  holdfast token --key private.jwk --issuer https://issuer.example \\
    --audience holdfast --space home --ref-domain walk \\
    --permission cas:nodes:read,cas:nodes:lease \\
    --permission cas:root-refs:read,cas:root-refs:update |
    holdfast login walk --url http://127.0.0.1:8420 --app walk --space home`;

/** The commands that `args` ask for: the one they name, or all, for the overview and for what they misspell. */
async function loadCommands([first = '', second = '']: readonly string[]): Promise<readonly Register[]> {
  const load = COMMANDS.get(first === 'help' ? second : first);
  // Its work is to know all of them.
  if (load !== undefined && first !== 'completion') return [await load()];
  return Promise.all([...COMMANDS.values()].map((loadEach) => loadEach()));
}

/** The command line that reads `args`. Parsing errors throw CommanderError; actions throw CliError. */
export async function buildProgram(args: readonly string[]): Promise<Command> {
  const program = new Command('holdfast')
    .description('Self-hosted, multi-tenant content-addressed storage: server, administration and client.')
    .version(cliPackage.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .commandsGroup(OTHER_COMMANDS)
    .helpCommand('help [command]', 'show help for a command')
    .addHelpText('after', HELP_AFTER)
    .configureHelp({ showGlobalOptions: false })
    .exitOverride();
  for (const register of await loadCommands(args)) register(program);
  for (const [heading, commands] of GROUPS)
    for (const command of program.commands) if (command.name() in commands) command.helpGroup(heading);
  finish(program);
  return program;
}

function finish(command: Command): void {
  command.configureOutput({
    writeOut: (text) => process.stdout.write(wrapHelp(text, findColumns(process.stdout))),
    writeErr: (text) => process.stderr.write(wrapHelp(text, findColumns(process.stderr))),
    getOutHelpWidth: () => findColumns(process.stdout),
    getErrHelpWidth: () => findColumns(process.stderr),
    // An error is one line, however long.
    outputError: (text) => process.stderr.write(`holdfast: ${explainUsage(text, command)}\n`),
  });
  refuseEmptyValues(command);
  refuseSecondValues(command);
  for (const sub of command.commands) finish(sub);
}

/** An empty value is the mark of a variable that was not set. Values with a parser of their own are judged there. */
function refuseEmptyValues(command: Command): void {
  const taking = command.options.filter(({ required, optional }) => required || optional);
  for (const value of [...taking, ...command.registeredArguments]) {
    if (value.parseArg === undefined && !value.variadic) value.argParser(parseGivenValue);
  }
}

/** Refuses an option that is given twice, because the line does not tell which value counts. Options that collect take the earlier value. */
function refuseSecondValues(command: Command): void {
  for (const option of command.options) {
    const isCollecting = option.variadic || (option.parseArg?.length ?? 0) > 1;
    if (isCollecting || !(option.required || option.optional)) continue;
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      if (isGiven) command.error(`error: ${option.long} is given twice; give it once`);
      isGiven = true;
    });
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
