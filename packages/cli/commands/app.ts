/** `holdfast app`: the Apps that servers serve, and whose tokens each believes. */
import {
  ALGORITHMS,
  countOf,
  formatBytes,
  formatCount,
  formatDuration,
  TOKEN_LIFETIME_MS_MAX_DEFAULT,
} from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { readTextFile } from '../files.ts';
import { namePart, type PartOptions, runPartOperation, withRowsPlace } from '../operator-call.ts';
import { collectKnownNames, jsonOption, parseDurationValue, parsePathIdValue } from '../options.ts';
import { printJson, printLine, printNote, printTable } from '../terminal/output.ts';
import { registerAppLimits } from './app-limits.ts';

interface AddOptions extends PartOptions {
  readonly issuer: string;
  readonly audience: string;
  readonly jwksFile?: string;
  readonly jwksUrl?: string;
  readonly algorithms?: readonly string[];
  readonly maxTokenLifetime: number;
  readonly replace?: true;
}

const ADD_HELP_AFTER = `
Needed: --issuer, --audience, and --jwks-file or --jwks-url. An example:
  holdfast app add demo --issuer https://issuer.example --audience holdfast --jwks-file public.json`;

const INTERRUPTED = 'to see whether the change was made: holdfast app list';

type DescribedApp = import('@holdfast/server').DescribedApp;

export function registerAppCommand(program: Command): void {
  const app = program
    .command('app')
    .description('register, list, limit, suspend and remove Apps; works while servers run');
  registerAdd(app);
  registerList(app);
  registerSetStatus(app, 'suspend', 'suspended', 'refuse every capability of an App until it is resumed');
  registerSetStatus(app, 'resume', 'active', 'accept the capabilities of a suspended App again');
  registerRemove(app);
  registerAppLimits(app);
}

function registerAdd(app: Command): void {
  const command = app
    .command('add')
    .description('register an App: whose tokens it believes and the keys that verify them')
    .argument('<app-id>', 'the id in the paths of the App', parsePathIdValue)
    .requiredOption('--issuer <iss>', 'the "iss" of its tokens; an issuer belongs to exactly one App')
    .requiredOption('--audience <aud>', 'what the "aud" of its tokens must contain')
    .addOption(
      new Option('--jwks-file <file>', 'public key set to copy into the registry').conflicts('jwksUrl'),
    )
    .option(
      '--jwks-url <url>',
      'http or https address of the public key set, fetched while in use',
      parseWebAddress,
    )
    .addOption(
      new Option('--max-token-lifetime <duration>', 'longest "exp" minus "iat" accepted')
        .argParser(parseDurationValue)
        .default(TOKEN_LIFETIME_MS_MAX_DEFAULT, '24h'),
    )
    .addOption(
      new Option('--algorithms <names...>', `accept only these of ${ALGORITHMS.join(', ')}`).argParser(
        collectKnownNames(ALGORITHMS),
      ),
    )
    .option('--replace', 'swap issuer, audience, keys, algorithms and lifetime of an App that exists')
    .addHelpText('after', ADD_HELP_AFTER);
  withRowsPlace(command).addOption(jsonOption()).action(addApp);
}

/** The registry reports any other fault. */
function parseWebAddress(text: string): string {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return text;
  throw new InvalidArgumentError(
    'It must be an http or https URL, such as https://issuer.example/jwks.json.',
  );
}

async function addApp(appId: string, options: AddOptions): Promise<void> {
  const { issuer, audience, jwksFile, jwksUrl, algorithms, maxTokenLifetime, replace = false } = options;
  if (jwksFile === undefined && jwksUrl === undefined) {
    throw new UsageError('the keys are missing; give --jwks-file FILE or --jwks-url URL');
  }
  const keys = jwksFile === undefined ? { jwksUrl } : { jwks: await readTextFile(jwksFile, 'the key set') };
  const input = {
    ...{ app: appId, issuer, audience, ...keys },
    ...{ algorithms, maxTokenLifetimeMs: maxTokenLifetime, replace },
  };
  const added = await runPartOperation(options, 'addApp', input, INTERRUPTED);
  report(options, added, `App ${JSON.stringify(appId)} is registered for issuer ${JSON.stringify(issuer)}`);
}

function registerList(app: Command): void {
  const command = app.command('list').description('list the registered Apps');
  withRowsPlace(command)
    .addOption(jsonOption())
    .action(async (options: PartOptions) => {
      const { apps } = await runPartOperation(options, 'listApps', {}, 'nothing was changed');
      if (options.json) printJson(apps);
      else if (apps.length === 0) {
        printNote(`no App is registered in ${await namePart(options)}; add one with: holdfast app add`);
      } else
        printTable(
          ['APP', 'STATUS', 'ISSUER', 'AUDIENCE', 'KEYS', 'MAX LIFETIME', 'STORED'],
          apps.map(toCells),
        );
    });
}

function registerSetStatus(
  app: Command,
  verb: 'suspend' | 'resume',
  status: 'suspended' | 'active',
  description: string,
): void {
  const command = app
    .command(verb)
    .description(description)
    .argument('<app-id>', 'the App', parsePathIdValue);
  withRowsPlace(command)
    .addOption(jsonOption())
    .action(async (appId: string, options: PartOptions) => {
      const changed = await runPartOperation(options, `${verb}App`, { app: appId }, INTERRUPTED);
      report(options, changed, `App ${JSON.stringify(appId)} is ${status}`);
    });
}

function registerRemove(app: Command): void {
  const command = app
    .command('remove')
    .description('unregister an App; its data stays and serves again when the App is added again')
    .argument('<app-id>', 'the App', parsePathIdValue);
  withRowsPlace(command)
    .addOption(jsonOption())
    .action(async (appId: string, options: PartOptions) => {
      const removed = await runPartOperation(options, 'removeApp', { app: appId }, INTERRUPTED);
      if (options.json) printJson(removed);
      else printLine(`App ${JSON.stringify(appId)} is removed; its data is kept`);
    });
}

function report(options: PartOptions, app: DescribedApp, line: string): void {
  if (options.json) printJson(app);
  else printLine(line);
}

function toCells({ appId, status, issuer, audience, ...app }: DescribedApp): readonly string[] {
  const keys = app.keys.kind === 'url' ? app.keys.url : 'in the registry';
  return [appId, status, issuer, audience, keys, formatDuration(app.maxTokenLifetimeMs), describeStored(app)];
}

function describeStored({ usage, quotas }: Pick<DescribedApp, 'usage' | 'quotas'>): string {
  if (usage === null) return 'not known: the list of Spaces says what is damaged';
  const bytes = formatBytes(usage.readyStoredBytes + usage.reservedBytes);
  const maxBytes = quotas.maxBytes === null ? '' : ` of ${formatBytes(quotas.maxBytes)}`;
  const used = usage.nodeCount;
  const nodes =
    quotas.maxNodes === null
      ? countOf(used, 'node')
      : `${formatCount(used)} of ${countOf(quotas.maxNodes, 'node')}`;
  return `${bytes}${maxBytes}, ${nodes}`;
}
