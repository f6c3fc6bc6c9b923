/** The names in a folder, sorted by their bytes; of a very wide folder packed, so that a million names are 20 MB, not 150. */
import { readdirSync } from 'node:fs';
import { type ByteString, byteStringOf, toByteString, toFsPath } from '../byte-names.ts';
import { collectGarbage } from '../resident-memory.ts';

/** The decoder's replacement for bytes that are not UTF-8. */
const REPLACEMENT = '\ufffd';
/** More names than this are packed. */
const PLAIN_NAMES_MAX = 50_000;

export class NameList {
  readonly length: number;
  readonly #names: readonly ByteString[];
  readonly #packed: Uint8Array;
  /** where each name begins, and where the last ends */
  readonly #starts: Uint32Array;

  /** `names` are sorted; more than PLAIN_NAMES_MAX are not kept. */
  constructor(names: readonly ByteString[], plainNamesMax = PLAIN_NAMES_MAX) {
    this.length = names.length;
    const isPlain = names.length <= plainNamesMax;
    this.#names = isPlain ? names : [];
    this.#starts = new Uint32Array(isPlain ? 0 : names.length + 1);
    this.#packed = new Uint8Array(isPlain ? 0 : names.reduce((total, { length }) => total + length, 0));
    if (isPlain) return;
    const target = Buffer.from(this.#packed.buffer);
    let end = 0;
    for (const [index, name] of names.entries()) {
      target.write(name, end, 'latin1');
      end += name.length;
      this.#starts[index + 1] = end;
    }
  }

  at(index: number): ByteString {
    const plain = this.#names[index];
    if (plain !== undefined) return plain;
    return byteStringOf(this.#packed.subarray(this.#starts[index], this.#starts[index + 1]));
  }

  has(name: ByteString): boolean {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.at(middle) < name) low = middle + 1;
      else high = middle;
    }
    return low < this.length && this.at(low) === name;
  }

  *[Symbol.iterator](): Generator<ByteString, void, undefined> {
    for (let index = 0; index < this.length; index += 1) yield this.at(index);
  }
}

/** Throws what the system says. */
export function listNames(folder: ByteString): NameList {
  const list = new NameList(readNames(toFsPath(folder)).sort());
  // The raw names are many megabytes of garbage now, and the collector would run too late by itself.
  if (list.length > PLAIN_NAMES_MAX) collectGarbage();
  return list;
}

/** As text first, in a third of the memory; only a folder with a name that may not be UTF-8 is read again as bytes. */
function readNames(path: string | Buffer): ByteString[] {
  const names = readdirSync(path);
  if (names.some((name) => name.includes(REPLACEMENT))) {
    return (readdirSync(path, { encoding: 'buffer' }) as unknown as Buffer[]).map(byteStringOf);
  }
  for (const [index, name] of names.entries()) names[index] = toByteString(name);
  return names;
}
