/** The tool that searches names, and text in files. It ends at the bounds of one call. */
import { matchesGlob } from 'node:path';
import { type TreeItem, walkTree } from '@holdfast/client/internal';
import { ToolError } from './arguments.ts';
import { type McpNames, type Place, parsePlace, textBelow } from './mcp-names.ts';
import { Items } from './reading.ts';

const MATCHES_DEFAULT = 100;
const SHOWN_CHARACTERS_MAX = 300;

export interface SearchArguments {
  readonly path: string;
  readonly names?: string;
  readonly text?: string;
  readonly limit?: number;
}

interface Match {
  readonly path: string;
  readonly line?: number;
  readonly text?: string;
}

export async function search(names: McpNames, wanted: SearchArguments, signal: AbortSignal) {
  if (wanted.text?.includes('\n'))
    throw new ToolError('text is looked for within lines: it has no line break');
  const one = new Search(names, wanted, signal);
  const more = !(await one.run());
  return { matches: one.matches.all, more };
}

class Search {
  readonly matches: Items<Match>;
  readonly #names: McpNames;
  readonly #wanted: SearchArguments;
  readonly #place: Place;
  readonly #signal: AbortSignal;
  readonly #endAt = performance.now() + 20_000;
  #leftBytes = 64 * 1024 * 1024;

  constructor(names: McpNames, wanted: SearchArguments, signal: AbortSignal) {
    this.#names = names;
    this.#wanted = wanted;
    this.#signal = signal;
    this.#place = parsePlace(wanted.path);
    this.matches = new Items(wanted.limit ?? MATCHES_DEFAULT);
  }

  /** False: there may be more. */
  async run(): Promise<boolean> {
    const root = await this.#names.find(this.#place, undefined);
    if (root.kind !== 'directory') return this.#look([{ path: this.#place.text, item: root }]);
    if (root.hash === '') return true;
    let together: Found[] = [];
    let entries = 0;
    for await (const step of walkTree(this.#names.source, root, { signal: this.#signal })) {
      if (step.type !== 'entry') continue;
      entries += 1;
      if (entries > 50_000 || performance.now() > this.#endAt) return (await this.#look(together)) && false;
      const path = textBelow(this.#place, step.path);
      if (path === undefined || !this.#isWanted(path, step.entry)) continue;
      together.push({ path, item: step.entry });
      if (together.length < 8) continue;
      if (!(await this.#look(together))) return false;
      together = [];
    }
    return this.#look(together);
  }

  #isWanted(path: string, { kind }: TreeItem): boolean {
    const { names, text } = this.#wanted;
    if (text !== undefined && kind !== 'file') return false;
    if (names === undefined) return true;
    const below = path.slice(this.#place.text.length + 1);
    return matchesGlob(names.includes('/') ? below : below.slice(below.lastIndexOf('/') + 1), names);
  }

  /** False: there is no room for more matches, or enough was read. */
  async #look(together: readonly Found[]): Promise<boolean> {
    const { text } = this.#wanted;
    const found = await Promise.all(
      together.map(({ path, item }) => (text === undefined ? [{ path }] : this.#lines(path, item, text))),
    );
    for (const match of found.flat()) if (!this.matches.add(match)) return false;
    return this.#leftBytes > 0;
  }

  async #lines(path: string, item: TreeItem, text: string): Promise<readonly Match[]> {
    const found: Match[] = [];
    if (item.kind !== 'file') return found;
    const most = this.#wanted.limit ?? MATCHES_DEFAULT;
    const lines = new Lines(text, (line, shown) => found.push({ path, line, text: shown }));
    for await (const piece of this.#names.tree.readFile(item, { signal: this.#signal })) {
      this.#leftBytes -= piece.length;
      // As grep does: what has a NUL byte is no text.
      if (piece.includes(0)) return [];
      lines.add(piece);
      if (this.#leftBytes <= 0 || found.length > most) return found;
    }
    lines.end();
    return found;
  }
}

interface Found {
  readonly path: string;
  readonly item: TreeItem;
}

class Lines {
  readonly #text: string;
  readonly #tell: (line: number, shown: string) => void;
  readonly #decoder = new TextDecoder();
  #line = 1;
  #rest = '';
  #isTold = false;

  constructor(text: string, tell: (line: number, shown: string) => void) {
    this.#text = text;
    this.#tell = tell;
  }

  add(piece: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      this.#lookAt(line);
      this.#line += 1;
      this.#isTold = false;
    }
    // A longer line is searched in pieces.
    if (this.#rest.length <= 256 * 1024) return;
    this.#lookAt(this.#rest);
    this.#rest = this.#rest.slice(this.#rest.length - this.#text.length + 1);
  }

  end(): void {
    this.#lookAt(this.#rest);
  }

  #lookAt(line: string): void {
    const at = this.#isTold ? -1 : line.indexOf(this.#text);
    if (at === -1) return;
    this.#isTold = true;
    const start = line.length <= SHOWN_CHARACTERS_MAX ? 0 : Math.max(0, at - 100); // 100 characters before the match
    this.#tell(this.#line, line.slice(start, start + SHOWN_CHARACTERS_MAX).toWellFormed());
  }
}
