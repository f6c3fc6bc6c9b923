/** The first walk of a recount: for each hash the sum of differences. Only if there is one, a second walk describes the fault. */
import { type Hash, HashTable } from '@holdfast/protocol';
import type { CountTaker, KeptCounts } from './walk-counts.ts';

/** Facts about a hash. `needed`: a ready parent or a balance refers to it, so it must have a row. */
const FACT = { row: 1, loose: 2, needed: 4 } as const;

export class CountScreen implements CountTaker {
  readonly #places = new HashTable('numbers');
  /** by place: counted minus stored */
  #edges = new Float64Array(1024);
  #rootRefs = new Float64Array(1024);
  #domains = new Int32Array(1024);
  #facts = new Uint8Array(1024);

  settle(): void {}

  addRow(hash: Hash, { childRefCount, rootRefCount, heldDomainCount }: KeptCounts): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.row);
    this.#count(this.#edges, place, -childRefCount);
    this.#count(this.#rootRefs, place, -rootRefCount);
    this.#count(this.#domains, place, -heldDomainCount);
  }

  addEdge(hash: Hash, _parent: Hash, isParentReady: boolean): void {
    const place = this.#placeOf(hash);
    this.#count(this.#edges, place, 1);
    if (isParentReady) this.#note(place, FACT.needed);
  }

  addLoose(hash: Hash, count: number): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.loose);
    this.#count(this.#edges, place, -count);
  }

  addBalance(hash: Hash, balance: number): void {
    const place = this.#placeOf(hash);
    this.#note(place, FACT.needed);
    this.#count(this.#rootRefs, place, balance);
    this.#count(this.#domains, place, 1);
  }

  /** Whether something about `hash` disagrees. */
  isOff(hash: Hash): boolean {
    const place = this.#places.find(hash);
    return place !== undefined && this.#isPlaceOff(place);
  }

  /** Whether something about any hash disagrees. */
  isAnyOff(): boolean {
    for (let place = 0; place < this.#places.size; place += 1) if (this.#isPlaceOff(place)) return true;
    return false;
  }

  #isPlaceOff(place: number): boolean {
    const facts = this.#facts[place] as number;
    const hasRow = (facts & FACT.row) !== 0;
    const isOutOfPlace = hasRow ? (facts & FACT.loose) !== 0 : (facts & FACT.needed) !== 0;
    return (
      isOutOfPlace || this.#edges[place] !== 0 || this.#rootRefs[place] !== 0 || this.#domains[place] !== 0
    );
  }

  #placeOf(hash: Hash): number {
    const known = this.#places.find(hash);
    if (known !== undefined) return known;
    const place = this.#places.size;
    this.#places.set(hash, place);
    if (place === this.#facts.length) this.#grow();
    return place;
  }

  #note(place: number, fact: number): void {
    this.#facts[place] = (this.#facts[place] as number) | fact;
  }

  #count(counts: Float64Array | Int32Array, place: number, by: number): void {
    counts[place] = (counts[place] as number) + by;
  }

  #grow(): void {
    const places = 2 * this.#facts.length;
    this.#edges = grown(this.#edges, new Float64Array(places));
    this.#rootRefs = grown(this.#rootRefs, new Float64Array(places));
    this.#domains = grown(this.#domains, new Int32Array(places));
    this.#facts = grown(this.#facts, new Uint8Array(places));
  }
}

function grown<T extends { set(from: T): void }>(from: T, into: T): T {
  into.set(from);
  return into;
}
