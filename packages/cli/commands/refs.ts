/** `holdfast refs`: the root refs of the token's refDomain. */
import { randomUUID } from 'node:crypto';
import {
  CasError,
  type Client,
  type Hash,
  type RootRefItem,
  type RootRefPage,
} from '@holdfast/client/internal';
import {
  hasAtMostCodePoints,
  REQUEST_ID_CHARACTERS_MAX,
  ROOT_REF_CHANGES_MAX,
  ROOT_REF_DELTA_MAX,
  ROOT_REFS_PAGE_DEFAULT,
  ROOT_REFS_PAGE_MAX,
} from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { parsePositiveValue, repeated } from '../options.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printable, printJson, printLine, printNote } from '../terminal/output.ts';
import { locateHashes } from '../trees/located-trees.ts';
import { parseLocation, requireReadable, type TreeLocation } from '../trees/reference.ts';

export function registerRefsCommand(program: Command): void {
  const refs = program.command('refs').description("list and change the root refs of the token's refDomain");
  registerList(refs);
  registerUpdate(refs);
}

interface ListFlags extends ConnectionFlags {
  readonly all?: true;
  readonly limit?: number;
  readonly cursor?: string;
}

const LIST_HELP = `
Prints one line for each node with a balance: hash and count. All pages of one walk show the same revision.

Examples:
  holdfast refs list --all
  holdfast refs list --limit 200 --json`;

function registerList(refs: Command): void {
  const command = refs
    .command('list')
    .description('list balances, ordered by hash')
    .addOption(new Option('--all', 'all pages, not only one').conflicts('cursor'))
    .option(
      '--limit <n>',
      `per page, 1 to ${ROOT_REFS_PAGE_MAX} (default: ${ROOT_REFS_PAGE_DEFAULT})`,
      parsePositiveValue(ROOT_REFS_PAGE_MAX),
    )
    .option('--cursor <cursor>', 'the page after the one that gave this cursor');
  withConnection(command, LIST_HELP).action(async (flags: ListFlags) => {
    const page = await withClient(flags, (client) =>
      flags.all ? readAll(client, flags) : readPage(client, flags),
    );
    if (flags.json) return printJson(page);
    for (const { hash, refCount } of page.items) printLine(`${hash} ${refCount}`);
    printNote(`revision ${page.revision} of domain ${printable(page.refDomain)}`);
    if (page.nextCursor !== null)
      printNote(`there is more: use --all, or --cursor ${printable(page.nextCursor)}`);
  });
}

function readPage(client: Client, { limit, cursor }: ListFlags): Promise<RootRefPage> {
  return client.listRootRefs({ limit, cursor });
}

/** More are not held in memory. */
const ITEMS_OF_ALL_MAX = 1_000_000;

/** All pages as one. */
async function readAll(client: Client, { limit = ROOT_REFS_PAGE_MAX }: ListFlags): Promise<RootRefPage> {
  const items: RootRefItem[] = [];
  let last: RootRefPage | undefined;
  for await (const page of client.rootRefs({ limit })) {
    items.push(...page.items);
    if (items.length > ITEMS_OF_ALL_MAX) {
      throw new CliError(
        `there are over ${ITEMS_OF_ALL_MAX} root refs, more than --all holds: list them page by page, with --limit and --cursor`,
      );
    }
    last = page;
  }
  if (last === undefined) throw new CliError('the server gave no page; try again');
  return { ...last, items };
}

interface UpdateFlags extends ConnectionFlags {
  readonly requestId?: string;
}

const UPDATE_HELP = `
All changes commit together or not at all. The same request id with the same changes is never applied twice: after a
failure that leaves it open whether the commit happened, run the same command with the id that was shown.

Examples:
  holdfast refs update HASH=+1
  holdfast refs update photos@2026-11-22=+1      what was pushed with --name photos, on that day
  holdfast refs update OLD_HASH=-1 NEW_HASH=+1 --request-id deploy-2024-06-01`;

function registerUpdate(refs: Command): void {
  const command = refs
    .command('update')
    .description('change balances in one atomic, idempotent commit')
    .argument('<changes...>', 'LOCATION=DELTA, such as HASH=+1 or HASH=-1', repeated(parseChange))
    .option(
      '--request-id <id>',
      'id of this commit, to send it again; a random one is made and shown if left out',
      parseRequestId,
    );
  withConnection(command, UPDATE_HELP).action(update);
}

interface Change {
  readonly location: TreeLocation;
  readonly delta: number;
}

async function update(given: readonly Change[], flags: UpdateFlags): Promise<void> {
  if (given.length > ROOT_REF_CHANGES_MAX) {
    throw new UsageError(
      `${given.length} changes are too many for one commit; give at most ${ROOT_REF_CHANGES_MAX}`,
    );
  }
  const locations = given.map(({ location }) => location);
  await requireReadable(flags, locations);
  const requestId = flags.requestId ?? randomUUID();
  sayWhenInterrupted(
    `whether it was committed is not known; to send the same commit again add --request-id ${printable(requestId)}`,
  );
  try {
    const result = await withClient(flags, async (client, progress) => {
      const hashes = await locateHashes(client, locations, { progress });
      return client.updateRootRefs({ requestId, changes: collectChanges(given, hashes) });
    });
    if (flags.json) return printJson({ requestId, ...result });
    const outcome = result.idempotent ? 'had been committed before' : 'committed';
    printLine(`revision ${result.revision} ${outcome}, request id ${requestId}`);
  } catch (error) {
    if (!(error instanceof CliError && isOutcomeOpen(error.cause))) throw error;
    throw new CliError(`${error.message}; to send the same commit again add --request-id ${requestId}`);
  }
}

/** Whether the commit may have happened although no good answer came: any answer of 4xx says that it did not. */
function isOutcomeOpen(error: unknown): boolean {
  if (!(error instanceof CasError)) return false;
  if (error.status !== undefined) return error.status < 400 || error.status >= 500;
  return error.code === 'CONNECTION_FAILED' || error.code === 'TIMED_OUT';
}

/** Throws UsageError. */
function collectChanges(given: readonly Change[], hashes: readonly Hash[]): Record<Hash, number> {
  const changes = new Map<Hash, number>();
  for (const [index, { delta }] of given.entries()) {
    const hash = hashes[index] as Hash;
    if (changes.has(hash)) {
      throw new UsageError(`${hash} is given twice: each hash may be given once, so add up its deltas`);
    }
    changes.set(hash, delta);
  }
  return Object.fromEntries(changes);
}

function parseChange(text: string): Change {
  const match = /^(.*)=([+-]?\d{1,15})$/s.exec(text);
  const [location, delta] = [match?.[1] ?? '', Number(match?.[2])];
  if (match === null || Math.abs(delta) > ROOT_REF_DELTA_MAX) {
    throw new InvalidArgumentError(
      `Write HASH=+1 or HASH=-1, with an integer from -${ROOT_REF_DELTA_MAX} to ${ROOT_REF_DELTA_MAX}.`,
    );
  }
  // Number('-0') is -0, which JSON writes as 0 but equality would tell apart.
  return { location: parseLocation(location), delta: delta === 0 ? 0 : delta };
}

function parseRequestId(text: string): string {
  if (text !== '' && hasAtMostCodePoints(text, REQUEST_ID_CHARACTERS_MAX)) return text;
  throw new InvalidArgumentError(`It must have 1 to ${REQUEST_ID_CHARACTERS_MAX} characters.`);
}
