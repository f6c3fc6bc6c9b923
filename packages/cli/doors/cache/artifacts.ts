/** Turborepo's artifacts: a value whose file begins with a line that holds what the client said of it. */
import type { IncomingMessage } from 'node:http';
import type { TreeItem } from '@holdfast/client/internal';
import { DoorError } from '../door.ts';
import type { CacheTree } from './cache-tree.ts';

const HEADERS = ['x-artifact-tag', 'x-artifact-duration'] as const;
const HEADER_CHARACTERS_MAX = 600;
const LINE_BYTES_MAX = 2048;

/** The line for what the request says. Throws DoorError 400. */
export function writeArtifactHead({ headers }: IncomingMessage): Uint8Array {
  const said = HEADERS.flatMap((name) => {
    const text = headers[name];
    if (typeof text !== 'string') return [];
    if (text.length > HEADER_CHARACTERS_MAX || !/^[\x20-\x7e]*$/.test(text))
      throw new DoorError(400, `${name} has at most ${HEADER_CHARACTERS_MAX} ASCII characters`);
    return [[name, text] as const];
  });
  return Buffer.from(`${JSON.stringify(Object.fromEntries(said))}\n`);
}

export interface ArtifactHead {
  readonly bytes: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Undefined for a file that has no such line. */
export async function readArtifactHead(tree: CacheTree, item: TreeItem): Promise<ArtifactHead | undefined> {
  const kept = tree.client.findFile(item);
  const pieces: Uint8Array[] = [];
  const range = { start: 0, end: LINE_BYTES_MAX };
  if (kept !== undefined) pieces.push(kept.subarray(0, LINE_BYTES_MAX));
  else for await (const piece of tree.reader.readFile(item, { range, readAheadNodes: 0 })) pieces.push(piece);
  const first = Buffer.concat(pieces);
  const end = first.indexOf('\n');
  if (end === -1) return undefined;
  try {
    const said = JSON.parse(first.toString('latin1', 0, end)) as Readonly<Record<string, unknown>>;
    const headers = HEADERS.flatMap((name) => {
      const text = said[name];
      return typeof text === 'string' ? [[name, text] as const] : [];
    });
    return { bytes: end + 1, headers: Object.fromEntries(headers) };
  } catch {
    return undefined;
  }
}
