/** Files as resources: `holdfast://NAME/path`, each part percent-encoded. */

import { findText, pathNames, walkTree } from '@holdfast/client/internal';
import { findDecoded } from '@holdfast/protocol';
import { ToolError } from './arguments.ts';
import { type McpNames, parseBelow } from './mcp-names.ts';
import { Items, READ_BYTES_MAX, toContent } from './reading.ts';

const SCHEME = 'holdfast://';

export const RESOURCE_TEMPLATE = {
  name: 'file',
  uriTemplate: `${SCHEME}{name}/{+path}`,
  description: 'a file of the latest version of a name',
};

interface Listed {
  readonly uri: string;
  readonly name: string;
  readonly size: number;
  readonly [key: string]: unknown;
}

/** The first files of all names; others are found by the tools. */
export async function listResources(names: McpNames): Promise<Listed[]> {
  const found = new Items<Listed>();
  let entries = 0;
  for (const [name, snapshots] of await names.names()) {
    const root = await names.findIn(snapshots.at(-1), '');
    if (root?.kind !== 'directory') continue;
    for await (const step of walkTree(names.source, root)) {
      if (step.type !== 'entry') continue;
      entries += 1;
      // Folders and links count too.
      if (entries > 5000) return found.all;
      const parts = pathNames(step.path).map(findText);
      if (step.entry.kind !== 'file' || parts.includes(undefined)) continue;
      const path = [name, ...parts] as string[];
      const uri = SCHEME + path.map(encodeURIComponent).join('/');
      if (!found.add({ uri, name: path.join('/'), size: step.entry.bytes })) return found.all;
    }
  }
  return found.all;
}

/** Throws ToolError, EditError, CatalogError. */
export async function readResource(names: McpNames, uri: string) {
  const place = parseBelow(parseUri(uri));
  const file = await names.findFile(place, undefined);
  if (file.bytes > READ_BYTES_MAX)
    throw new ToolError(
      `${place.text} has ${file.bytes} bytes, too many for a resource; the tool read gives it in pieces`,
    );
  const content = toContent(await names.bytes(file, 0, file.bytes));
  return 'text' in content
    ? { uri, mimeType: 'text/plain', text: content.text }
    : { uri, mimeType: 'application/octet-stream', blob: content.base64 };
}

function parseUri(uri: string): string {
  if (!uri.startsWith(SCHEME)) throw new ToolError(`resources are ${SCHEME}NAME/PATH`);
  const parts = uri.slice(SCHEME.length).split('/').map(decodePart);
  if (parts.some((part) => part.includes('/')))
    throw new ToolError('a part of the address holds an encoded /');
  return parts.join('/');
}

function decodePart(part: string): string {
  const text = findDecoded(part);
  if (text === undefined) throw new ToolError('the address is not percent-encoded UTF-8');
  return text;
}
