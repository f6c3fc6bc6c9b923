/** The tools that look: list, read, history, diff. */
import { compareNames, diffWithRenames, findText, type TreeItem } from '@holdfast/client/internal';
import { ToolError } from './arguments.ts';
import { type McpNames, parsePlace, textBelow } from './mcp-names.ts';

export const READ_BYTES_DEFAULT = 256 * 1024;
export const READ_BYTES_MAX = 1024 * 1024;

export class Items<T> {
  readonly all: T[] = [];
  readonly #most: number;
  #characters = 0;

  constructor(most = 1000) {
    this.#most = most;
  }

  /** False: it is full, and this one is not in it. */
  add(item: T): boolean {
    const characters = JSON.stringify(item).length;
    if (this.all.length >= this.#most || this.#characters + characters > 1024 * 1024) return false;
    this.#characters += characters;
    this.all.push(item);
    return true;
  }
}

export type Content = { readonly text: string } | { readonly base64: string };

export function toContent(bytes: Uint8Array): Content {
  const text = findText(bytes);
  // A text that JSON makes more than three times as long goes as base64, because clients take at most 10 MiB.
  if (text !== undefined && JSON.stringify(text).length <= 3 * (bytes.length + 1)) return { text };
  return { base64: Buffer.from(bytes).toString('base64') };
}

export interface ListArguments {
  readonly path?: string;
  readonly version?: string;
  readonly cursor?: string;
}

interface Entry {
  readonly name: string;
  readonly kind: TreeItem['kind'];
  readonly bytes: number;
}

/** `more` is the cursor of the next page, or false. */
export async function list(names: McpNames, { path, version, cursor }: ListArguments) {
  const after = cursor === undefined ? undefined : Buffer.from(cursor);
  const page = new Items<Entry>();
  let leftOut = 0;
  let more: string | false = false;
  for await (const entry of path === undefined
    ? listNames(names, version)
    : listFolder(names, path, version)) {
    if (after !== undefined && compareNames(entry.name, after) <= 0) continue;
    const name = findText(entry.name);
    if (name === undefined) leftOut += 1;
    else if (!page.add({ name, kind: entry.kind, bytes: entry.bytes })) {
      more = page.all.at(-1)?.name ?? false;
      break;
    }
  }
  return { entries: page.all, more, ...(leftOut > 0 ? { leftOut } : {}) };
}

type Listed = Omit<Entry, 'name'> & { readonly name: Uint8Array };

async function* listNames(names: McpNames, version: string | undefined): AsyncGenerator<Listed> {
  if (version !== undefined) throw new ToolError('version is one of a name: give the path too');
  const all = [...(await names.names())].map(([name, snapshots]) => ({
    name: Buffer.from(name),
    kind: 'directory' as const,
    bytes: snapshots.at(-1)?.bytes ?? 0,
  }));
  yield* all.sort((a, b) => compareNames(a.name, b.name));
}

async function* listFolder(
  names: McpNames,
  path: string,
  version: string | undefined,
): AsyncGenerator<Listed> {
  const item = await names.find(parsePlace(path), version);
  if (item.kind !== 'directory') throw new ToolError(`${path} is no folder; read shows a file`);
  const { hash, bytes, entryCount } = item;
  if (hash !== '') yield* names.tree.readDirectory({ hash, bytes, entryCount });
}

export interface ReadArguments {
  readonly path: string;
  readonly version?: string;
  readonly offset?: number;
  readonly length?: number;
}

export async function read(names: McpNames, { path, version, offset = 0, length }: ReadArguments) {
  const file = await names.findFile(parsePlace(path), version);
  const start = Math.min(offset, file.bytes);
  const end = Math.min(file.bytes, start + (length ?? READ_BYTES_DEFAULT));
  const bytes = await names.bytes(file, start, end);
  // Who asked for no length gets whole characters.
  const cut = length === undefined && end < file.bytes ? countWhole(bytes) : bytes.length;
  const more = start + cut < file.bytes;
  return { ...toContent(bytes.subarray(0, cut)), total: file.bytes, more };
}

/** How many bytes there are up to the last beginning of a character, if that one is cut. */
function countWhole(bytes: Uint8Array): number {
  // A character has at most 4 bytes.
  for (let back = 0; back < 4 && back < bytes.length; back += 1) {
    const kept = bytes.subarray(0, bytes.length - back);
    if (findText(kept) !== undefined) return kept.length;
  }
  return bytes.length;
}

export async function history(names: McpNames, { name }: { readonly name: string }) {
  const versions = new Items<object>();
  for (const { id, time, message = '', root, bytes } of [...(await names.snapshots(name))].reverse()) {
    const date = new Date(time);
    const at = Number.isNaN(date.getTime()) ? `${time} ms` : date.toISOString();
    if (!versions.add({ id, time: at, message, root, bytes })) return { versions: versions.all, more: true };
  }
  return { versions: versions.all };
}

export interface DiffArguments {
  readonly name: string;
  readonly from: string;
  readonly to?: string;
}

export async function diff(names: McpNames, { name, from, to }: DiffArguments) {
  const place = parsePlace(name);
  const [before, after] = [await names.find(place, from), await names.find(place, to)];
  const changes = new Items<object>();
  // A diff holds so many added and removed entries to tell which were moved.
  for await (const change of diffWithRenames(names.source, before, after, { entriesMax: 10_000 })) {
    const path = textBelow(place, change.path);
    const old = change.type === 'renamed' ? textBelow(place, change.from) : undefined;
    if (path === undefined) continue;
    const { type } = change;
    if (!changes.add({ type, path, ...(old === undefined ? {} : { from: old }) }))
      return { changes: changes.all, more: true };
  }
  return { changes: changes.all };
}
