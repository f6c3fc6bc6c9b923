/** A data folder with one wrong bit in a leaf page of its rows: the bit was wrong before it is opened, or comes to be while it is open. */
import { Database } from 'bun:sqlite';
import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { readFailures } from '../failures.ts';
import { RenewedCopy } from './renewed-copy.ts';
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

/** Whose rows are found by a number alone: one that is out of order may hide others once rows beside it have changed. */
const HIDING = 'contents';

interface Leaf {
  /** a table or an index */
  readonly name: string;
  /** its place among the leaves of that name */
  readonly place: number;
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
  const [origin, copy] = [join(folder, 'origin'), join(folder, 'copy')];
  mkdirSync(origin);
  const renewed = new RenewedCopy(origin);
  return {
    open: openFolder(origin),
    *damages(draw) {
      const leaves = listLeaves(join(origin, ROWS));
      for (const flip of flipsOf(leaves, draw))
        yield { name: nameOf(flip), make: async () => copyWith(renewed, copy, flip) };
    },
  };
}

const leafNameOf = ({ name, place }: Leaf): string => (place === 0 ? name : `${name}/${place}`);
const nameOf = ({ leaf, byte, bit, isLive }: Flip): string =>
  `${leafNameOf(leaf)} ${byte} ${bit}${isLive ? ' live' : ''}`;

/** A later schema may have the same bits elsewhere. */
function listKnown(leaves: readonly Leaf[]): Flip[] {
  return readFailures('row-rot-pages').flatMap(({ again }) => {
    const [name, byte, bit, live] = again.split(' ');
    const leaf = leaves.find((each) => leafNameOf(each) === name);
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

function copyWith(renewed: RenewedCopy, copy: string, { leaf, byte, bit, isLive }: Flip): DamagedCopy {
  renewed.make(copy);
  // It stays open until SQLite has closed the file, whose locks end when a process closes any descriptor of it.
  const file = openSync(join(copy, ROWS), 'r+');
  const flip = (): void => {
    writeSync(file, Buffer.of((leaf.bytes[byte] as number) ^ (1 << bit)), 0, 1, leaf.at + byte);
  };
  if (!isLive) flip();
  return {
    async open(now, seed) {
      const world = await openFolder(copy)(now, seed);
      if (isLive) flip();
      return world;
    },
    mayRefuse: UNREADABLE_WITHOUT.has(leaf.name),
    mayHide: leaf.name === HIDING,
    remove: async () => closeSync(file),
  };
}

function listLeaves(path: string): Leaf[] {
  const file = readFileSync(path);
  using database = new Database(path, { readonly: true });
  const found = database.query<{ name: string; pgoffset: number; pgsize: number }, []>(
    "SELECT name, pgoffset, pgsize FROM dbstat WHERE pagetype = 'leaf' AND ncell > 0 ORDER BY pageno",
  );
  const counts = new Map<string, number>();
  return found.all().map(({ name, pgoffset: at, pgsize }) => {
    const place = counts.get(name) ?? 0;
    counts.set(name, place + 1);
    return { name, place, at, bytes: file.subarray(at, at + pgsize) };
  });
}

/** Of the header, the places of the cells, and the cells: what lies between is read by nobody. The first page is no leaf. */
function drawByte(page: Buffer, draw: Draw): number {
  const places = LEAF_HEADER + 2 * page.readUInt16BE(3);
  const content = page.readUInt16BE(5);
  const drawn = draw(places + page.length - content);
  return drawn < places ? drawn : content + drawn - places;
}
