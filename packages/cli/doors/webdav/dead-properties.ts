/** Properties that clients gave to places and that mean nothing here. They live in the door's memory, and go with COPY and MOVE. */
import { DoorError } from '../door.ts';
import type { DoorMemory } from './locks.ts';
import { isWithin } from './places.ts';
import type { XmlElement } from './xml.ts';

/** The namespace and name of a property, as the key of a map. */
export function nameOf({ namespace, name }: Pick<XmlElement, 'namespace' | 'name'>): string {
  return `${namespace} ${name}`;
}

function sizeOf(key: string, name: string, value: string): number {
  return 128 + 2 * (key.length + name.length + value.length); // bytes of memory
}

export class DeadProperties {
  readonly #memory: DoorMemory;
  readonly #places = new Map<string, Map<string, string>>();

  constructor(memory: DoorMemory) {
    this.#memory = memory;
  }

  of(key: string): ReadonlyMap<string, string> {
    return this.#places.get(key) ?? new Map();
  }

  /** `value` is the whole element, undefined to remove it. False where there is no room. */
  trySet(key: string, name: string, value: string | undefined): boolean {
    const place = this.#places.get(key) ?? new Map<string, string>();
    const before = place.get(name);
    const freed = before === undefined ? 0 : sizeOf(key, name, before);
    if (value !== undefined && !this.#memory.tryTake(sizeOf(key, name, value) - freed)) return false;
    if (value === undefined) this.#memory.give(freed);
    if (value === undefined) place.delete(name);
    else place.set(name, value);
    if (place.size === 0) this.#places.delete(key);
    else this.#places.set(key, place);
    return true;
  }

  /** All, the later ones winning, or none. */
  trySetAll(key: string, wishes: readonly (readonly [string, string | undefined])[]): boolean {
    const before = [...this.of(key)];
    if (wishes.every(([name, value]) => this.trySet(key, name, value))) return true;
    for (const name of [...this.of(key).keys()]) this.trySet(key, name, undefined);
    for (const [name, value] of before) this.trySet(key, name, value);
    return false;
  }

  forget(key: string): void {
    for (const [at, place] of [...this.#places]) {
      if (isWithin(at, key)) for (const name of [...place.keys()]) this.trySet(at, name, undefined);
    }
  }

  /** Throws DoorError 507 where a copy would find no room. */
  transfer(op: 'move' | 'copy', from: string, to: string, isShallow: boolean): void {
    const source = [...this.#places].filter(([at]) => (isShallow ? at === from : isWithin(at, from)));
    const kept = source.map(([at, place]) => [to + at.slice(from.length), [...place]] as const);
    if (op === 'move') this.forget(from);
    this.forget(to);
    for (const [at, place] of kept) {
      for (const [name, value] of place) {
        if (!this.trySet(at, name, value)) throw new DoorError(507, 'there are too many dead properties');
      }
    }
  }
}
