/** A data folder with one wrong bit in a leaf page of its rows: the bit was wrong before it is opened, or comes to be while it is open. */
import { Database } from 'bun:sqlite';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readFailures } from '../failures.ts';
import type { DamagedCopy, Draw, Subject } from './subject.ts';
import { openFolder } from './world.ts';

const ROWS = 'holdfast.db';
const BITS_PER_BYTE = 8;
/** bytes of the header of a leaf, behind which the places of its cells stand, of two bytes each */
const LEAF_HEADER = 8;
/** No row can be read without these. */
const UNREADABLE_WITHOUT: ReadonlySet<string> = new Set(['sqlite_schema', 'holdfast_schema', 'store']);
/** By these a Space or a domain is found: they are compared with their tables at a start, and by a check. */
const COMPARED_AT_START: ReadonlySet<string> = new Set([
  ...['sqlite_autoindex_spaces_1', 'sqlite_autoindex_domains_1'],
]);

interface Leaf {
  /** a table or an index */
  readonly name: string;
  readonly at: number;
  readonly bytes: Buffer;
}

interface Flip {
  readonly leaf: Leaf;
  /** within the page */
  readonly byte: number;
  readonly bit: number;
  readonly isLive: boolean;
}

/** `folder` is empty. The faults that were found come first, then leaf after leaf. */
export function pagesSubject(folder: string): Subject {
  const origin = join(folder, 'origin');
  mkdirSync(origin);
  return {
    open: openFolder(origin),
    *damages(draw) {
      const leaves = listLeaves(join(origin, ROWS));
      for (const flip of flipsOf(leaves, draw))
        yield { name: nameOf(flip), make: async () => copyWith(folder, flip) };
    },
  };
}

const nameOf = ({ leaf, byte, bit, isLive }: Flip): string =>
  `${leaf.name} ${byte} ${bit}${isLive ? ' live' : ''}`;

/** A later schema may have the same bits elsewhere. */
function listKnown(leaves: readonly Leaf[]): Flip[] {
  return readFailures('row-rot-pages').flatMap(({ again }) => {
    const [name, byte, bit, live] = again.split(' ');
    const leaf = leaves.find((each) => each.name === name);
    return leaf === undefined
      ? []
      : [{ leaf, byte: Number(byte), bit: Number(bit), isLive: live !== undefined }];
  });
}

function* flipsOf(leaves: readonly Leaf[], draw: Draw): Generator<Flip> {
  yield* listKnown(leaves);
  for (let round = 0; ; round += 1) {
    for (const leaf of leaves) {
      const isLive = round % 2 === 1 && !COMPARED_AT_START.has(leaf.name);
      yield { leaf, byte: drawByte(leaf.bytes, draw), bit: draw(BITS_PER_BYTE), isLive };
    }
  }
}

function copyWith(folder: string, { leaf, byte, bit, isLive }: Flip): DamagedCopy {
  const copy = join(folder, 'copy');
  cpSync(join(folder, 'origin'), copy, { recursive: true });
  const flip = (): void =>
    writeByte(join(copy, ROWS), leaf.at + byte, (leaf.bytes[byte] as number) ^ (1 << bit));
  if (!isLive) flip();
  return {
    async open(now, seed) {
      const world = await openFolder(copy)(now, seed);
      if (isLive) flip();
      return world;
    },
    mayRefuse: UNREADABLE_WITHOUT.has(leaf.name),
    remove: async () => rmSync(copy, { recursive: true }),
  };
}

/** By another process: the locks of SQLite end when the process that has them closes any descriptor of the file. */
function writeByte(path: string, at: number, byte: number): void {
  const args = [`of=${path}`, 'bs=1', `seek=${at}`, 'count=1', 'conv=notrunc'];
  execFileSync('dd', args, { input: Buffer.of(byte), stdio: ['pipe', 'ignore', 'ignore'] });
}

function listLeaves(path: string): Leaf[] {
  const file = readFileSync(path);
  using database = new Database(path, { readonly: true });
  const found = database.query<{ name: string; pgoffset: number; pgsize: number }, []>(
    "SELECT name, pgoffset, pgsize FROM dbstat WHERE pagetype = 'leaf' AND ncell > 0 ORDER BY pageno",
  );
  return found.all().map(({ name, pgoffset: at, pgsize }) => {
    return { name, at, bytes: file.subarray(at, at + pgsize) };
  });
}

/** Of the header, the places of the cells, and the cells: what lies between is read by nobody. The first page is no leaf. */
function drawByte(page: Buffer, draw: Draw): number {
  const places = LEAF_HEADER + 2 * page.readUInt16BE(3);
  const content = page.readUInt16BE(5);
  const drawn = draw(places + page.length - content);
  return drawn < places ? drawn : content + drawn - places;
}
