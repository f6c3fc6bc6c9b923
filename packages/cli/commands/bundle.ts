/** `holdfast bundle`: nodes and all below them as one CAR file, out of a Space and into one. */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import {
  BundleError,
  type Client,
  createBundle,
  formatCid,
  type Hash,
  type ImportBundleResult,
  importBundle,
  RottenNodeError,
  watchStream,
} from '@holdfast/client/internal';
import { createCollectingDigest, ResidentMemory } from '@holdfast/files';
import { countOf, formatCount } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection, withJob } from '../connection/space-connection.ts';
import { describeFileError } from '../files.ts';
import { INPUT_BYTES_MAX } from '../node-input.ts';
import { writeToFile, writeToStdout } from '../node-output.ts';
import { parseSizeValue, quietOption, repeated } from '../options.ts';
import type { JobContext, JobOptions } from '../progress/run-job.ts';
import { NOTHING_CHANGED } from '../terminal/interruption.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { locateHashes } from '../trees/located-trees.ts';
import { LOCATION_HELP, parseLocation, requireReadable, type TreeLocation } from '../trees/reference.ts';

export function registerBundleCommand(program: Command): void {
  const bundle = program.command('bundle').description('nodes and all below them as one CAR file');
  registerCreate(bundle);
  registerImport(bundle);
}

interface CreateFlags extends ConnectionFlags {
  readonly out?: string;
}

const CREATE_HELP = `
Writes a CAR version 1 (CIDv1, raw, sha2-256) that standard IPLD tools read and verify: every node once, children first,
each verified against its hash. The same nodes give the same file. With --out the file appears only when it is whole.

Examples:
  holdfast bundle create HASH > tree.car
  holdfast bundle create photos > photos.car      the latest that was pushed with --name photos
  holdfast bundle create HASH_1 HASH_2 --out both.car --json`;

function registerCreate(bundle: Command): void {
  const command = bundle
    .command('create')
    .description('write nodes and all below them as a CAR file')
    .argument('<locations...>', LOCATION_HELP, repeated(parseLocation))
    .option('--out <file>', 'write here instead of stdout')
    .addOption(quietOption());
  withConnection(command, CREATE_HELP).action(create);
}

async function create(locations: readonly TreeLocation[], flags: CreateFlags): Promise<void> {
  const { out, json } = flags;
  if (json && out === undefined)
    throw new UsageError('stdout carries the bundle; with --json give --out FILE too');
  if (out === undefined && process.stdout.isTTY) {
    throw new UsageError('a bundle is not for a terminal; write it to a file: add > x.car, or --out x.car');
  }
  await requireReadable(flags, locations);
  const whenInterrupted = `${NOTHING_CHANGED}; run the same command again: it begins anew`;
  const subject = locations.map(({ text }) => text).join(' ');
  const job = { job: 'bundle-create' as const, subject, flags, whenInterrupted };
  const { roots, ...written } = await runBundleJob(job, async (client, { progress, signal }) => {
    const roots = await locateHashes(client, locations, { progress, signal });
    progress.phase('transfer');
    let total = { nodes: 0, bytes: 0 };
    const onNode = (next: typeof total): void => {
      const bytes = next.bytes - total.bytes;
      progress.count({ files: 1, bytes, transferredNodes: 1, transferredBytes: bytes });
      total = next;
    };
    const bundle = createBundle(client, roots, { signal, onNode, digest: createCollectingDigest() });
    const stream = watchStream(bundle, progress, {
      taken: 'what reads the bundle has not taken all of it yet',
    });
    await (out === undefined ? writeToStdout(stream, true) : writeToFile(stream, out));
    return { ...total, roots };
  });
  if (json) printJson({ roots: roots.map(describeRoot), ...written, file: out });
}

interface ImportFlags extends ConnectionFlags {
  readonly check?: true;
  readonly maxNodeBytes?: number;
}

const IMPORT_HELP = `
Verifies every block and stores the nodes that the Space lacks, children first. Interrupted, the same command goes on where
it stopped. Prints the roots; everything below them is leased until the time shown. Hold it for longer by a root ref:
  holdfast refs update HASH=+1

Examples:
  holdfast bundle import tree.car
  curl https://example.org/tree.car | holdfast bundle import`;

function registerImport(bundle: Command): void {
  const command = bundle
    .command('import')
    .description('store the nodes of a CAR file')
    .argument('[file]', 'the bundle; - or none reads stdin', '-')
    .option('--check', 'look below ready roots too, and store nodes again whose bytes were lost')
    .option(
      '--max-node-bytes <size>',
      'the largest node taken (default: 64MiB)',
      parseSizeValue(1, INPUT_BYTES_MAX),
    )
    .addOption(quietOption('print the roots only'));
  withConnection(command, IMPORT_HELP).action(importFile);
}

async function importFile(path: string, flags: ImportFlags): Promise<void> {
  if (path === '-' && process.stdin.isTTY) {
    throw new UsageError('name the file of the bundle, or pipe one in: holdfast bundle import x.car');
  }
  const whenInterrupted =
    'uploaded nodes are kept under their lease; run the same command again: it goes on where it stopped';
  const job = { job: 'bundle-import' as const, subject: path, flags, whenInterrupted };
  const result = await runBundleJob(job, async (client, { progress, signal }) => {
    progress.phase('transfer');
    let done = { nodes: 0, uploadedNodes: 0, bytes: 0, uploadedBytes: 0 };
    const memory = new ResidentMemory();
    const { stream: input, size } = await openInput(path);
    const stream = watchStream(input, progress, { coming: `no further bytes yet of the bundle (${path})` });
    progress.expect({ bytes: size });
    return importBundle(client, stream, {
      check: flags.check,
      nodeBytesMax: flags.maxNodeBytes,
      signal,
      onNode: (next) => {
        // Bytes of the file, so that they add up to its size. One call for each node, whether it was there or is sent.
        const bytes = next.bytes - done.bytes;
        // Every byte is in memory four times: as read, as a block, as a node, as sent.
        memory.passed(bytes * 4);
        const wasThere = next.uploadedNodes === done.uploadedNodes;
        const transferredBytes = next.uploadedBytes - done.uploadedBytes;
        progress.count({
          files: next.nodes - done.nodes,
          bytes,
          deduplicatedBytes: wasThere ? bytes : 0,
          transferredNodes: next.uploadedNodes - done.uploadedNodes,
          transferredBytes,
        });
        done = next;
      },
    });
  });
  if (flags.json) return printJson(describeResult(result));
  for (const { hash } of result.roots) printLine(hash);
  if (flags.quiet) return;
  const { nodes, uploadedNodes, roots } = result;
  const safeUntil = Math.min(...roots.map(({ leaseExpiresAt }) => leaseExpiresAt));
  printNote(
    `${countOf(nodes, 'node')} verified, ${formatCount(uploadedNodes)} uploaded; leased until ${new Date(safeUntil).toISOString()}`,
  );
}

function describeResult({ roots, ...progress }: ImportBundleResult): unknown {
  return { roots: roots.map((root) => ({ ...root, cid: formatCid(root.hash) })), ...progress };
}

function describeRoot(hash: Hash): unknown {
  return { hash, cid: formatCid(hash) };
}

/** A bundle to be read, and how many bytes it has where that is known: a pipe does not say. */
interface BundleInput {
  readonly stream: ReadableStream<Uint8Array>;
  readonly size: number | undefined;
}

async function openInput(path: string): Promise<BundleInput> {
  if (path === '-') return { stream: toWeb(process.stdin), size: undefined };
  try {
    const stats = await stat(path);
    // Opening a folder succeeds; only reading it would fail.
    if (stats.isDirectory()) throw Object.assign(new Error('a folder'), { code: 'EISDIR' });
    return { stream: toWeb(Readable.from(readPieces(path))), size: stats.isFile() ? stats.size : undefined };
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** Reads a file or named pipe piece by piece. A failure of the disk on the way becomes a CliError that names the file. */
async function* readPieces(path: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(path) as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw unreadable(path, error);
  }
}

const unreadable = (path: string, error: unknown): CliError =>
  new CliError(`${path} cannot be read: ${describeFileError(error)}`, { cause: error });

function toWeb(stream: Readable): ReadableStream<Uint8Array> {
  return Readable.toWeb(stream) as unknown as ReadableStream<Uint8Array>;
}

/** Does `work` under a view of its own, with patience with the network. Throws CliError for what is wrong with a bundle. */
async function runBundleJob<T>(
  job: JobOptions & { readonly flags: ConnectionFlags },
  work: (client: Client, context: JobContext) => Promise<T>,
): Promise<T> {
  try {
    return await withJob(job, ({ patient }, context) => work(patient, context));
  } catch (error) {
    if (error instanceof RottenNodeError) {
      const advice = 'store it again (a tree: holdfast push --check PATH), then make the bundle';
      throw new CliError(`${error.message}; ${advice}`, { cause: error });
    }
    throw error instanceof BundleError ? new CliError(error.message) : error;
  }
}
