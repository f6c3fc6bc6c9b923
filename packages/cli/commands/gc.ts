/** `holdfast gc`: collection passes. */
import type { Client, GcResult } from '@holdfast/client/internal';
import { formatBytes, formatCount, GC_NODES_DEFAULT, GC_NODES_MAX } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { noteIfUnknown, printCollected } from '../known-spaces.ts';
import { type OperatorOptions, runOperation, withOperatorPlace } from '../operator-call.ts';
import { parsePositiveValue } from '../options.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine } from '../terminal/output.ts';

interface GcFlags extends ConnectionFlags, Omit<OperatorOptions, 'json'> {
  readonly maxNodes?: number;
  readonly all?: true;
  readonly plan?: true;
}

type Plan = import('@holdfast/server').OperatorOutput<'planCollection'>;

const HELP_AFTER = `
Deletes nodes that no parent, root ref or unexpired lease keeps. Passes are bounded and safe to repeat.

Examples:
  holdfast gc                      one pass
  holdfast gc --all                passes until nothing is left to collect

For the operator of the server, without a token:
  holdfast gc --plan --app A --space S     what a pass would delete right now; deletes nothing. --data, --metadata and
                                           --content, or --operator say where the deployment is`;

export function registerGcCommand(program: Command): void {
  const command = program
    .command('gc')
    .description('collect nodes that nothing keeps any more')
    .option(
      '--max-nodes <n>',
      `candidates per pass, up to ${GC_NODES_MAX} (default: ${GC_NODES_DEFAULT})`,
      parsePositiveValue(GC_NODES_MAX),
    )
    .option('--all', 'repeat until nothing is left to collect')
    .option('--plan', 'for operators: say what a pass would delete, and delete nothing');
  withOperatorPlace(withConnection(command, HELP_AFTER)).action(async (flags: GcFlags) => {
    if (flags.plan) return plan(flags);
    assertNoPlace(flags);
    sayWhenInterrupted('collected nodes are gone, all others are kept; run the same command again to go on');
    printCollected(await withClient(flags, (client) => collect(client, flags)), flags.json);
  });
}

/** Someone who names a deployment expects that it is collected there, but a collection runs on the server of --url. */
function assertNoPlace({ data, metadata, content, operator, operatorTokenFile }: GcFlags): void {
  const places = { data, metadata, content, operator, 'operator-token-file': operatorTokenFile };
  const [named] = Object.entries(places).find(([, value]) => value !== undefined) ?? [];
  if (named === undefined) return;
  throw new UsageError(
    `--${named} goes with --plan; without it the server of --url collects (operators: holdfast space gc APP SPACE)`,
  );
}

/** Needs no token of the App: the operator asks the server, or the engines. */
async function plan(flags: GcFlags): Promise<void> {
  const app = flags.app ?? process.env.HOLDFAST_APP;
  const space = flags.space ?? process.env.HOLDFAST_SPACE;
  if (!app || !space) throw new UsageError('--plan needs --app APP and --space SPACE');
  if (flags.all) throw new UsageError('--plan is about one pass: leave out --all');
  const planned = await runOperation(
    flags,
    'planCollection',
    { app, space, maxNodes: flags.maxNodes },
    'a plan deletes nothing',
  );
  if (flags.json) printJson(planned);
  else printPlan(planned);
  if (planned.examined === 0) await noteIfUnknown(flags, app, space);
  if (planned.damage === null) return;
  throw new CliError(
    `rows of this Space cannot be read: the plan leaves out damaged nodes, and nodes that they keep (${planned.damage})`,
  );
}

function printPlan({ examined, deleted, reclaimedContentBytes, nodes }: Plan): void {
  for (const { hash, contentBytes } of nodes) printLine(`${hash}  ${formatBytes(contentBytes)}`);
  printLine(
    `would examine ${formatCount(examined)}, delete ${formatCount(deleted)}, reclaim ${formatBytes(reclaimedContentBytes)}`,
  );
}

async function collect(client: Client, flags: GcFlags): Promise<GcResult> {
  if (!flags.all) return client.runGc({ maxNodes: flags.maxNodes });
  // Long enough to be efficient, short enough to answer soon.
  const maxNodes = flags.maxNodes ?? 1_000;
  let total: GcResult = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  for (let passes = 1; ; passes += 1) {
    const pass = await client.runGc({ maxNodes });
    total = {
      examined: total.examined + pass.examined,
      deleted: total.deleted + pass.deleted,
      reclaimedContentBytes: total.reclaimedContentBytes + pass.reclaimedContentBytes,
    };
    // No Space has so much to collect: a server that always answers "more" would be asked forever.
    if (pass.examined > maxNodes || passes === 1_000_000) {
      throw new CliError('the server counts what no collection can do: check that it is one of this API');
    }
    // A pass that deleted nothing found only what has become kept again meanwhile.
    if (pass.examined < maxNodes || pass.deleted === 0) return total;
  }
}
