/** The tools that write: each call is one snapshot. */
import { compareAndSetName, findText, type TreeEdit } from '@holdfast/client/internal';
import { ToolError } from './arguments.ts';
import {
  type McpNames,
  type Place,
  parseBelow,
  parsePlace,
  type Step,
  WHOLE_BYTES_MAX,
  type Written,
} from './mcp-names.ts';

/** Others may be faster so often. */
const ATTEMPTS_MAX = 16;
/** Groups of four are counted apart: a pattern of groups gives up over some MiB. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

interface Message {
  readonly message?: string;
}

interface GivenFile {
  readonly path: string;
  readonly text?: string;
  readonly base64?: string;
  readonly executable?: boolean;
}

export interface WriteArguments extends Message {
  readonly files: readonly GivenFile[];
}

export async function write(
  names: McpNames,
  { files, message }: WriteArguments,
  signal: AbortSignal,
): Promise<Written> {
  const places = files.map(({ path }) => parseBelow(path));
  const name = findOneName(places);
  const twice = places.find(({ text }, index) => places.findIndex((other) => other.text === text) !== index);
  if (twice !== undefined)
    throw new ToolError(`${twice.text} stands twice among the files; nothing was written`);
  let total = 0;
  const edits = files.map((file, index): TreeEdit => {
    const bytes = bytesOf(file);
    total += bytes.length;
    return { op: 'set', path: places[index]?.rest ?? '', bytes, executable: file.executable ?? 'kept' };
  });
  checkSize(total, 'the files of one call');
  return names.edit(name, edits, { message, signal });
}

function bytesOf({ path, text, base64 }: GivenFile): Uint8Array {
  if ((text === undefined) === (base64 === undefined))
    throw new ToolError(`${path}: give text or base64, one of them`);
  if (text !== undefined) {
    if (!text.isWellFormed())
      throw new ToolError(`${path}: the text has half of a surrogate pair; give base64`);
    return Buffer.from(text);
  }
  if (base64 === undefined || base64.length % 4 !== 0 || !BASE64.test(base64))
    throw new ToolError(`${path}: this is no base64`);
  return Buffer.from(base64, 'base64');
}

function checkSize(bytes: number, what: string): void {
  if (bytes <= WHOLE_BYTES_MAX) return;
  throw new ToolError(`${what}: ${bytes} bytes; at most ${WHOLE_BYTES_MAX} are taken. Nothing was written`);
}

function findOneName([first, ...others]: readonly Place[]): string {
  if (first === undefined) throw new ToolError('there are no files');
  const other = others.find(({ name }) => name !== first.name);
  if (other === undefined) return first.name;
  throw new ToolError(`one call changes one name; here are ${first.name} and ${other.name}`);
}

export interface EditArguments extends Message {
  readonly path: string;
  readonly edits: readonly { readonly oldText: string; readonly newText: string }[];
}

export async function edit(
  names: McpNames,
  { path, edits, message }: EditArguments,
  signal: AbortSignal,
): Promise<Written> {
  const place = parseBelow(path);
  names.checkWritable(place.name);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const file = await names.findFile(place, undefined);
    checkSize(file.bytes, path);
    const text = findText(await names.bytes(file, 0, file.bytes));
    if (text === undefined) throw new ToolError(`${path} is no UTF-8 text; write it whole as base64`);
    const bytes = Buffer.from(replaceAll(text, edits, path));
    checkSize(bytes.length, `${path} as edited`);
    const set: TreeEdit = { op: 'set', path: place.rest, bytes, executable: 'kept' };
    try {
      return await names.edit(place.name, [set], {
        message,
        signal,
        check: async (head) => {
          if ((await names.findIn(head, place.rest))?.hash !== file.hash) throw new OvertakenError();
        },
      });
    } catch (error) {
      if (!(error instanceof OvertakenError)) throw error;
      names.forget();
    }
  }
  throw new ToolError(`${path} is being changed by others all the time; nothing was written. Try again`);
}

/** The file is not what was read. */
class OvertakenError extends Error {
  override readonly name = 'OvertakenError';
}

/** One after the other. Throws ToolError. */
function replaceAll(text: string, edits: EditArguments['edits'], path: string): string {
  let now = text;
  for (const [index, { oldText, newText }] of edits.entries()) {
    if (!newText.isWellFormed())
      throw new ToolError(`${path}: edits[${index}].newText has half of a surrogate pair`);
    const at = now.indexOf(oldText);
    const isTwice = at !== -1 && now.indexOf(oldText, at + 1) !== -1;
    if (at === -1 || isTwice) {
      const found = isTwice ? 'stands more than once' : 'does not stand';
      throw new ToolError(
        `${path}: edits[${index}].oldText ${found} in the file; it must once. Nothing was changed`,
      );
    }
    now = now.slice(0, at) + newText + now.slice(at + oldText.length);
  }
  return now;
}

export interface MoveArguments extends Message {
  readonly from: string;
  readonly to: string;
}

export async function move(
  names: McpNames,
  { from, to, message }: MoveArguments,
  signal: AbortSignal,
): Promise<Written> {
  const places = [parseBelow(from), parseBelow(to)] as const;
  const name = findOneName(places);
  return names.edit(name, [{ op: 'move', from: places[0].rest, to: places[1].rest }], { message, signal });
}

export interface RemoveArguments extends Message {
  readonly path: string;
}

export async function remove(
  names: McpNames,
  { path, message }: RemoveArguments,
  signal: AbortSignal,
): Promise<Written> {
  const { name, rest } = parseBelow(path);
  return names.edit(name, [{ op: 'remove', path: rest }], { message, signal });
}

export interface RestoreArguments extends Message {
  readonly name: string;
  readonly version: string;
  readonly path?: string;
}

/** All of a version, or what stood at a path of it. */
export async function restore(
  names: McpNames,
  { name, version, path = name, message }: RestoreArguments,
  signal: AbortSignal,
): Promise<Written> {
  const place = parsePlace(path);
  if (place.name !== name) throw new ToolError(`the path begins with the name: ${name}/${path}`);
  const item = await names.find(place, version);
  if (place.rest === '') return restoreWhole(names, name, item, { message, signal });
  const { kind, hash, bytes, entryCount, isExecutable, mtimeNs } = item;
  const node = { kind, hash, bytes, entryCount };
  const mode = kind === 'file' ? { executable: isExecutable } : {};
  const edits: TreeEdit[] = [{ op: 'set', path: place.rest, node, replace: true, ...mode }];
  if (mtimeNs !== undefined) edits.push({ op: 'time', path: place.rest, mtimeNs });
  return names.edit(name, edits, { message, signal });
}

async function restoreWhole(
  names: McpNames,
  name: string,
  { hash: root, bytes }: { readonly hash: string; readonly bytes: number },
  step: Step,
): Promise<Written> {
  names.checkWritable(name);
  let from = (await names.snapshot(name, undefined))?.root;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const options = { ...step, bytes, ...names.origin() };
    const outcome = await compareAndSetName(names.client, name, { from, to: root }, options);
    if (outcome.swapped) return { version: outcome.snapshot.id, root };
    from = outcome.head?.root;
  }
  throw new ToolError(`${name} is being changed by others all the time; nothing was restored. Try again`);
}
