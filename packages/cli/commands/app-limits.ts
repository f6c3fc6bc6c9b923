/** `holdfast app set` and `holdfast app revoke`: what an App may store, and tokens that are refused before they expire. */
import { countOf, formatBytes, INTEGER_MAX } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { type PartOptions, runPartOperation, withRowsPlace } from '../operator-call.ts';
import {
  jsonOption,
  orNone,
  parseCountValue,
  parseGivenValue,
  parsePathIdValue,
  parseSizeValue,
  parseTimeValue,
} from '../options.ts';
import { printJson, printLine } from '../terminal/output.ts';

interface SetOptions extends PartOptions {
  readonly maxBytes?: number | 'none';
  readonly maxNodes?: number | 'none';
  readonly maxCommits?: number | 'none';
  readonly space?: string;
}

interface RevokeOptions extends PartOptions {
  readonly jti?: string;
  readonly sub?: string;
  readonly until?: number;
  readonly lift?: true;
}

const INTERRUPTED = 'to see whether the change was made: holdfast app list --json';

export function registerAppLimits(app: Command): void {
  registerSet(app);
  registerRevoke(app);
}

function registerSet(app: Command): void {
  const command = app
    .command('set')
    .description('limit what an App, or one of its Spaces, may store; in force within 5 s')
    .argument('<app-id>', 'the App', parsePathIdValue)
    .addOption(
      new Option('--max-bytes <size>', 'stored bytes, such as 10GiB; none lifts the limit').argParser(
        orNone(parseSizeValue(0, INTEGER_MAX)),
      ),
    )
    .addOption(
      new Option('--max-nodes <count>', 'nodes; none lifts the limit').argParser(orNone(parseCountValue(0))),
    )
    .addOption(
      new Option(
        '--max-commits <count>',
        'commits of root refs that are kept; none lifts the limit',
      ).argParser(orNone(parseCountValue(0))),
    )
    .option('--space <space>', 'limit this Space alone, exactly', parsePathIdValue);
  withRowsPlace(command).addOption(jsonOption()).action(setQuotas);
}

async function setQuotas(appId: string, options: SetOptions): Promise<void> {
  const { space } = options;
  const given = [options.maxBytes, options.maxNodes, options.maxCommits];
  const [maxBytes, maxNodes, maxCommits] = given.map((limit) => (limit === 'none' ? null : limit));
  if (given.every((limit) => limit === undefined)) {
    throw new UsageError(
      'say what to limit: --max-bytes SIZE, --max-nodes N or --max-commits N; none lifts a limit',
    );
  }
  const input = { app: appId, space, maxBytes, maxNodes, maxCommits };
  const changed = await runPartOperation(options, 'setApp', input, INTERRUPTED);
  if (options.json) return printJson(changed);
  const quotas =
    space === undefined ? changed.quotas : changed.spaceQuotas.find((each) => each.space === space);
  const holder = space === undefined ? '' : `Space ${JSON.stringify(space)} of `;
  printLine(`${holder}App ${JSON.stringify(appId)} may store ${describeLimits(quotas)}`);
}

interface Limits {
  readonly maxBytes: number | null;
  readonly maxNodes: number | null;
  readonly maxCommits: number | null;
}

function describeLimits(
  { maxBytes, maxNodes, maxCommits }: Limits = { maxBytes: null, maxNodes: null, maxCommits: null },
): string {
  const limits = [
    ...(maxBytes === null ? [] : [formatBytes(maxBytes)]),
    ...(maxNodes === null ? [] : [countOf(maxNodes, 'node')]),
    ...(maxCommits === null ? [] : [countOf(maxCommits, 'commit')]),
  ];
  return limits.length === 0 ? 'without a limit' : `at most ${limits.join(' and ')}`;
}

function registerRevoke(app: Command): void {
  const command = app
    .command('revoke')
    .description('refuse a token of an App, or all tokens of a subject, within 5 s')
    .argument('<app-id>', 'the App', parsePathIdValue)
    .addOption(
      new Option('--jti <jti>', 'the token with this "jti"').argParser(parseGivenValue).conflicts('sub'),
    )
    .option('--sub <sub>', 'all tokens with this "sub", also new ones', parseGivenValue)
    .addOption(
      new Option(
        '--until <time>',
        'end of the revocation, RFC 3339 (default: as long as a token of the App may live from now)',
      )
        .argParser(parseTimeValue)
        .conflicts('lift'),
    )
    .option('--lift', 'take the revocation back');
  withRowsPlace(command).addOption(jsonOption()).action(revoke);
}

async function revoke(appId: string, options: RevokeOptions): Promise<void> {
  const { jti, sub, until, lift = false } = options;
  if (jti === undefined && sub === undefined) {
    throw new UsageError('say what to revoke: --jti JTI for one token, or --sub SUB for all of a subject');
  }
  const named = jti === undefined ? { sub } : { jti };
  const input = { app: appId, ...named, until, lift };
  const revoked = await runPartOperation(options, 'revokeApp', input, INTERRUPTED);
  if (options.json) return printJson(revoked);
  const [[claim, value] = []] = Object.entries(named);
  const tokens = `tokens of App ${JSON.stringify(appId)} with the ${claim} ${JSON.stringify(value)}`;
  if (revoked.until === null) printLine(`${tokens} are accepted again`);
  else printLine(`${tokens} are refused until ${new Date(revoked.until).toISOString()}`);
}
