/** The edits that a person asks for: words of the command line, or JSON lines. Paths on disk become contents only when all are understood. */
import { constants, lstatSync, readlinkSync, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import {
  type Client,
  EditError,
  findSymlinkTargetFault,
  formatName,
  type ProgressReporter,
  PUSH_PARALLEL_MAX_DEFAULT,
  parseEditPath,
  SILENT_PROGRESS,
  type TreeEdit,
} from '@holdfast/client/internal';
import {
  IGNORE_FILE_NAME,
  MemoryState,
  OwnFolderError,
  pushFolder,
  ScanError,
  TreeBusyError,
} from '@holdfast/files/push';
import {
  isJsonObject,
  type JsonValue,
  LEASE_DURATION_MS_MAX,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { CliError, UsageError } from '../cli-error.ts';
import { describeFileError } from '../files.ts';
import { readLines } from '../node-input.ts';
import { resolvePath } from './given-path.ts';

export type EditRequest =
  | { readonly op: 'put'; readonly file: string; readonly path: string }
  | { readonly op: 'rm' | 'mkdir'; readonly path: string }
  | { readonly op: 'mv' | 'cp'; readonly from: string; readonly to: string }
  | { readonly op: 'ln'; readonly target: string; readonly path: string };

/** The arguments of each, in the order of the command line. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  put: ['file', 'path'],
  rm: ['path'],
  mv: ['from', 'to'],
  cp: ['from', 'to'],
  mkdir: ['path'],
  ln: ['target', 'path'],
};
const OPS = Object.keys(FIELDS).join(', ');

/** Throws UsageError. */
export function parseEditWords([op = '', ...values]: readonly string[]): EditRequest {
  const fields = Object.hasOwn(FIELDS, op) ? FIELDS[op] : undefined;
  if (fields === undefined) throw new UsageError(`say after NAME what to do: one of ${OPS}`);
  if (values.length !== fields.length) {
    throw new UsageError(`${op} takes ${fields.map((field) => field.toUpperCase()).join(' and ')}`);
  }
  const request = Object.fromEntries([['op', op], ...fields.map((field, at) => [field, values[at]])]);
  return checked(request as EditRequest, '');
}

/** All edits of a file of JSON lines. Throws UsageError, which names the line, and CliError when it cannot be read. */
export async function parseEditLines(file: string): Promise<readonly EditRequest[]> {
  const requests: EditRequest[] = [];
  await readLines(file, (line) => requests.push(parseLine(line, requests.length)));
  if (requests.length === 0) throw new UsageError('there is no edit to do');
  const at = requests.findIndex((request) => request.op === 'put' && request.file === '-');
  if (file === '-' && at !== -1)
    throw new UsageError(`line ${at + 1}: stdin has the edits, so no file can come from it`);
  return requests;
}

/** Some editors begin a file with it. */
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

function parseLine(line: Uint8Array, index: number): EditRequest {
  const where = `line ${index + 1}: `;
  const isMarked = index === 0 && BYTE_ORDER_MARK.equals(line.subarray(0, BYTE_ORDER_MARK.length));
  const fields = parseJson(isMarked ? line.subarray(BYTE_ORDER_MARK.length) : line, where);
  const op = isJsonObject(fields) ? fields.get('op') : undefined;
  const known = typeof op === 'string' && Object.hasOwn(FIELDS, op) ? FIELDS[op] : undefined;
  if (!isJsonObject(fields) || known === undefined) {
    throw new UsageError(`${where}an edit is a JSON object with an op of ${OPS}`);
  }
  const isWhole =
    fields.size === known.length + 1 && known.every((field) => typeof fields.get(field) === 'string');
  if (!isWhole)
    throw new UsageError(`${where}${op} takes the texts ${known.join(' and ')}, and no other field`);
  return checked(Object.fromEntries(fields) as unknown as EditRequest, where);
}

function parseJson(line: Uint8Array, where: string): JsonValue {
  try {
    return parseStrictJson(line);
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw new UsageError(`${where}this is no JSON: ${error.message}`);
  }
}

function checked(request: EditRequest, where: string): EditRequest {
  const paths = 'from' in request ? [request.from, request.to] : [request.path];
  try {
    for (const path of paths) parseEditPath(path, 0);
  } catch (error) {
    throw error instanceof EditError ? new UsageError(`${where}${error.message}`) : error;
  }
  if (request.op === 'put' && request.file === '')
    throw new UsageError(`${where}the FILE is empty; - is stdin`);
  const fault =
    request.op === 'ln' ? findSymlinkTargetFault(new TextEncoder().encode(request.target)) : undefined;
  if (fault !== undefined) throw new UsageError(`${where}${fault}`);
  return request;
}

interface Made {
  readonly edits: readonly TreeEdit[];
  /** entries of folders that could not be stored; each was named */
  readonly leftOut: number;
}

interface MakeOptions {
  readonly replace: true | undefined;
  readonly progress: ProgressReporter;
}

/** Opens the files; folders are pushed. Throws CliError. */
export async function makeEdits(
  client: Client,
  requests: readonly EditRequest[],
  options: MakeOptions,
): Promise<Made> {
  const edits: TreeEdit[] = [];
  let leftOut = 0;
  for (const request of requests) {
    if (request.op !== 'put') {
      edits.push(toEdit(request));
      continue;
    }
    const put = await makePut(client, request.file, options);
    leftOut += put.leftOut;
    edits.push({ op: 'set', path: request.path, replace: options.replace, ...put.content } as TreeEdit);
  }
  return { edits, leftOut };
}

function toEdit(request: Exclude<EditRequest, { op: 'put' }>): TreeEdit {
  switch (request.op) {
    case 'rm':
      return { op: 'remove', path: request.path };
    case 'mkdir':
      return { op: 'set', path: request.path, directory: true, replace: false };
    case 'ln':
      return { op: 'set', path: request.path, target: request.target, replace: false };
    default:
      return { op: request.op === 'mv' ? 'move' : 'copy', from: request.from, to: request.to };
  }
}

async function makePut(client: Client, file: string, { progress }: MakeOptions) {
  if (file === '-') return { content: { bytes: Bun.stdin.stream() }, leftOut: 0 };
  const absolute = resolvePath(file);
  try {
    const stats = lstatSync(absolute);
    if (stats.isSymbolicLink()) {
      return { content: { target: new Uint8Array(readlinkSync(absolute, 'buffer')) }, leftOut: 0 };
    }
    if (stats.isDirectory()) return await pushWhole(client, absolute, progress);
    if (stats.isFile()) {
      const held = readHeld(absolute, stats);
      // A small file is read at once, because a stream for each of many files takes longer.
      const isSmall = stats.size <= 64 * 1024;
      const bytes = isSmall ? Buffer.concat(await Array.fromAsync(held)) : toWeb(held);
      return { content: { bytes, executable: (stats.mode & 0o111) !== 0 }, leftOut: 0 };
    }
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) {
      throw new CliError(`${file} cannot be read: ${describeFileError(error)}; nothing was changed`);
    }
    throw error;
  }
  throw new CliError(`${file} is a socket, pipe or device; pipe its bytes in, and write - for it`);
}

/** Reads the file that was `seen`, up to the length that it had, and nothing that takes its place meanwhile. */
async function* readHeld(path: string, seen: Stats): AsyncGenerator<Uint8Array> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { ino, dev } = await file.stat();
    if (ino !== seen.ino || dev !== seen.dev)
      throw new CliError(`${path} was replaced while it was read; run the command again`);
    // Files of /proc have no length.
    const end = seen.size > 0 ? seen.size - 1 : Number.POSITIVE_INFINITY;
    yield* file.createReadStream({ autoClose: false, end });
  } finally {
    await file.close();
  }
}

function toWeb(chunks: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  return Readable.toWeb(Readable.from(chunks)) as unknown as ReadableStream<Uint8Array>;
}

async function pushWhole(client: Client, path: string, progress: ProgressReporter) {
  const state = new MemoryState();
  try {
    const pushed = await pushFolder({
      ...{ client, path, state, ignorePatterns: [], ignoreFileNames: [IGNORE_FILE_NAME] },
      ...{ recordsMtime: false, skipsSpecial: false, isStrict: false, check: false },
      ...{ leaseDurationMs: LEASE_DURATION_MS_MAX, parallelMax: PUSH_PARALLEL_MAX_DEFAULT },
      progress: { ...SILENT_PROGRESS, warn: (message) => progress.warn(message) },
    });
    for (const { pathBytes, why } of pushed.leftOut)
      progress.warn(`${formatName(pathBytes)} is left out: ${why}`);
    const { root: hash, bytes, entryCount, leftOut } = pushed;
    // A push counts the root itself.
    const node = { kind: 'directory' as const, hash, bytes, entryCount: entryCount - 1 };
    return { content: { node }, leftOut: leftOut.length };
  } catch (error) {
    const isToTell = [OwnFolderError, ScanError, TreeBusyError].some((kind) => error instanceof kind);
    throw isToTell ? new CliError((error as Error).message, { cause: error }) : error;
  } finally {
    state.close();
  }
}
