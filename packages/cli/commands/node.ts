/** `holdfast node`: single nodes, stored, read, described and leased over the SDK. */
import {
  type Client,
  type ContentRange,
  type Hash,
  type NodeDescription,
  type ProgressReporter,
  watchStream,
} from '@holdfast/client/internal';
import { CONTENT_TYPE_BYTES_MAX, encodeNode, NODE_REFS_MAX } from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { readInput } from '../node-input.ts';
import { writeToFile, writeToStdout } from '../node-output.ts';
import { findLeaseWarning, jsonOption, leaseOption, parseHashValue, repeated } from '../options.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from '../terminal/interruption.ts';
import { printable, printJson, printLine, printNote } from '../terminal/output.ts';
import { locateHashes } from '../trees/located-trees.ts';
import { LOCATION_HELP, parseLocation, requireReadable, type TreeLocation } from '../trees/reference.ts';

const CONTENT_TYPE_DEFAULT = 'application/octet-stream';
const LEASE_MS_DEFAULT = 60 * 60_000;

export function registerNodeCommand(program: Command): void {
  const node = program.command('node').description('hash, put, get, stat and lease single nodes');
  registerHash(node);
  registerPut(node);
  registerGet(node);
  registerStat(node);
  registerLease(node);
}

interface PutFlags extends ConnectionFlags {
  readonly contentType: string;
  readonly ref?: readonly Hash[];
  readonly lease: number;
}

const PUT_HELP = `
Prints the hash and the state. "validated_awaiting_children" means the bytes are with the server, but children are not
ready: put those, then run the same command again; it does not upload twice.

Examples:
  holdfast node put photo.jpg --content-type image/jpeg
  date | holdfast node put - --content-type text/plain
  holdfast node put index.json --content-type application/json --ref HASH_OF_A HASH_OF_B --lease 24h`;

const HASH_HELP = `
Prints what "put" would store it under, without a server: a parent can name children before they are there.

Example:
  holdfast node hash photo.jpg --content-type image/jpeg`;

function registerHash(node: Command): void {
  const command = node.command('hash').description('print the hash a file would have as a node');
  describedNode(command).addOption(jsonOption()).addHelpText('after', HASH_HELP).action(hashNode);
}

/** The parts of a node, without its destination. */
function describedNode(command: Command): Command {
  return command
    .argument('<file>', 'the content; - reads stdin')
    .addOption(
      new Option('--content-type <type>', 'part of what the hash names')
        .argParser(parseContentType)
        .default(CONTENT_TYPE_DEFAULT),
    )
    .option(
      '--ref <hashes...>',
      'children in order; a hash may be given more than once',
      repeated(parseHashValue, NODE_REFS_MAX, TOO_MANY_CHILDREN),
    );
}

async function hashNode(file: string, flags: Omit<PutFlags, 'lease'>): Promise<void> {
  sayWhenInterrupted(NOTHING_CHANGED);
  const { contentType, ref: refs = [] } = flags;
  const bytes = encodeNode({ contentType, refs, content: await readInput(file) });
  const hash = new Bun.CryptoHasher('sha256').update(bytes).digest('hex');
  if (flags.json) printJson({ hash, canonicalSize: bytes.length });
  else printLine(hash);
}

function registerPut(node: Command): void {
  const command = describedNode(
    node.command('put').description('store one node: a file, its content type and its children'),
  ).addOption(leaseOption('--lease <duration>', LEASE_MS_DEFAULT));
  withConnection(command, PUT_HELP).action(putNode);
}

async function putNode(file: string, flags: PutFlags): Promise<void> {
  sayWhenInterrupted('uploaded nodes are kept under their lease; run the same command again to go on');
  warnOfLease('--lease', flags.lease);
  await withClient(flags, async (client) => {
    const { contentType, ref: refs, lease: leaseDurationMs } = flags;
    const result = await client.putNode(
      { contentType, refs, content: await readInput(file) },
      { leaseDurationMs },
    );
    if (flags.json) printJson(result);
    else printLine(`${result.hash} ${result.state}`);
    if (result.state === 'validated_awaiting_children' && !flags.json) {
      printNote(`children that are not ready: ${result.childHashes.join(' ')}`);
    }
  });
}

interface GetFlags extends ConnectionFlags {
  readonly range?: ContentRange;
  readonly out?: string;
}

const GET_HELP = `
Whole content is verified against the hash while it comes. On stdout the last part is held back until it is verified;
with --out the file appears only then. A range cannot be verified by the hash.

Examples:
  holdfast node get HASH --out photo.jpg
  holdfast node get HASH --range 0-99        the first 100 bytes
  holdfast node get HASH --range 100-        from byte 100 on
  holdfast node get HASH --range=-50         the last 50 bytes`;

function registerGet(node: Command): void {
  const command = node
    .command('get')
    .description('write the content of a node to stdout or a file')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .option('--range <a-b>', 'only these bytes, counted from 0, both included', parseRange)
    .option('--out <file>', 'write here instead of stdout');
  withConnection(command, GET_HELP).action(getNode);
}

async function getNode(location: TreeLocation, flags: GetFlags): Promise<void> {
  const { range, out, json } = flags;
  if (json && out === undefined)
    throw new UsageError('stdout carries the content; with --json give --out FILE too');
  await withNode(location, flags, async (client, hash, progress) => {
    const { contentType, size, body: content } = await openContent(client, hash, range);
    const body = watchStream(content, progress, { coming: `no further bytes yet of ${hash}`, item: hash });
    if (out === undefined) return writeToStdout(body);
    await writeToFile(body, out);
    if (json) printJson({ hash, contentType, size, file: out, verified: range === undefined });
  });
}

async function openContent(
  client: Client,
  hash: Hash,
  range: ContentRange | undefined,
): Promise<{ contentType: string; size: number; body: ReadableStream<Uint8Array> }> {
  if (range !== undefined) return client.readContent(hash, { range });
  const { metadata, body } = await client.openNode(hash);
  return { contentType: metadata.contentType, size: metadata.size, body };
}

function registerStat(node: Command): void {
  const command = node
    .command('stat')
    .description('show the metadata and the state of a node')
    .argument('<location>', LOCATION_HELP, parseLocation);
  withConnection(command).action(async (location: TreeLocation, flags: ConnectionFlags) => {
    const description = await withNode(location, flags, (client, hash) => client.readMetadata(hash));
    if (flags.json) printJson(description);
    else printDescription(description);
  });
}

function printDescription({ metadata, state }: NodeDescription): void {
  const lines: readonly (readonly [string, string | number])[] = [
    ['hash', metadata.hash],
    ['size', metadata.size],
    ['contentType', printable(metadata.contentType)],
    ['refs', metadata.refs.length],
    ...metadata.refs.map((ref) => ['  ref', ref] as const),
    ['leaseStartedAt', formatInstant(state.leaseStartedAt)],
    ['leaseExpiresAt', formatInstant(state.leaseExpiresAt)],
    ['childRefCount', state.childRefCount],
    ['rootRefCount', state.rootRefCount],
  ];
  for (const [name, value] of lines) printLine(`${name.padEnd(14)}  ${value}`);
}

/** ISO 8601; a node that was never leased has the instant 0. */
function formatInstant(at: number): string {
  return at === 0 ? 'never' : new Date(at).toISOString();
}

interface LeaseFlags extends ConnectionFlags {
  readonly duration: number;
}

const LEASE_HELP = `
Protects a node from collection. A lease is only ever made longer; the server keeps it within 60 s and 24 h.

Example:
  holdfast node lease HASH --duration 24h`;

function registerLease(node: Command): void {
  const command = node
    .command('lease')
    .description('renew the lease of a ready node')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .addOption(leaseOption('--duration <duration>', LEASE_MS_DEFAULT));
  withConnection(command, LEASE_HELP).action(leaseNode);
}

async function leaseNode(location: TreeLocation, flags: LeaseFlags): Promise<void> {
  sayWhenInterrupted('the lease may be renewed already: it is only ever made longer');
  warnOfLease('--duration', flags.duration);
  const lease = await withNode(location, flags, (client, hash) =>
    client.leaseNode(hash, { leaseDurationMs: flags.duration }),
  );
  const { hash } = lease;
  // An upload instruction is a key to the upload target: it is not printed.
  if (flags.json) printJson('upload' in lease ? { ...lease, upload: undefined } : lease);
  switch (lease.state) {
    case 'ready':
      if (!flags.json) printLine(`${hash} ready until ${formatInstant(lease.leaseExpiresAt)}`);
      return;
    case 'validated_awaiting_children':
      throw new CliError(
        `${hash} is not ready: put its children ${lease.childHashes.join(' ')}, then lease it again`,
      );
    case 'awaiting_replacement_upload':
      throw new CliError(
        `${hash} is not ready: an upload was rejected (${lease.rejection.code}: ${lease.rejection.message}); put it again: holdfast node put`,
      );
    case 'awaiting_upload':
      throw new CliError(`${hash} is not ready: its bytes are not there; put them by: holdfast node put`);
  }
}

/** Does `work` with the node that is meant. Throws CliError. */
async function withNode<T>(
  location: TreeLocation,
  flags: ConnectionFlags,
  work: (client: Client, hash: Hash, progress: ProgressReporter) => Promise<T>,
): Promise<T> {
  await requireReadable(flags, [location]);
  return withClient(flags, async (client, progress) => {
    const [hash] = await locateHashes(client, [location] as const, { progress });
    return work(client, hash, progress);
  });
}

function warnOfLease(flag: string, durationMs: number): void {
  const warning = findLeaseWarning(flag, durationMs);
  if (warning !== undefined) printNote(`warning: ${warning}`);
}

const TOO_MANY_CHILDREN = `A node has at most ${NODE_REFS_MAX} children; put nodes in between.`;

function parseContentType(text: string): string {
  if (/^[\x20-\x7e]+$/.test(text) && text.length <= CONTENT_TYPE_BYTES_MAX) return text;
  throw new InvalidArgumentError(`It must have 1 to ${CONTENT_TYPE_BYTES_MAX} printable ASCII characters.`);
}

function parseRange(text: string): ContentRange {
  const match = /^(\d{0,15})-(\d{0,15})$/.exec(text);
  const [first, last] = [match?.[1] ?? '', match?.[2] ?? ''];
  if (first === '' && Number(last) > 0) return { suffix: Number(last) };
  if (first !== '' && last === '') return { first: Number(first) };
  if (first !== '' && Number(first) <= Number(last)) return { first: Number(first), last: Number(last) };
  throw new InvalidArgumentError('Write 0-99, 100- or -50, counted from 0, both ends included.');
}
