/** The generations that are being received now, and the bytes that they reserve per Space. */

import { UPLOADS_OF_GENERATION_MAX } from '../../core/lease/upload-judge.ts';
import type { Generation, Receiving, Space } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-map.ts';

export interface ReceivingRegistry {
  /** `undefined`: as many are being received of the generation as may be, by all processes together. */
  begin(space: Space, generation: Generation, bytes: ReceivedBytes): ReceivingEntry | undefined;
  isReceiving(generation: Generation): boolean;
  /** declared lengths */
  reservedBytes(space: Space): number;
  /** what quotas count */
  heldBytes(space: Space): number;
  heldBytesOfApp(appId: string, by: 'all' | 'other processes'): number;
  close(): void;
}

export interface ReceivedBytes {
  /** the declared length; 0: none was declared */
  readonly declared: number;
  /** what quotas count: the declared length, or the most that may come */
  readonly held: number;
}

export interface ReceivingEntry extends Receiving {
  /** Ends the receiving. Calling it twice does no harm. */
  end(): void;
}

interface Entry extends ReceivedBytes {
  readonly generation: Generation;
  readonly appId: string;
}

// Most PUTs take less.
export const pauseReceiving = (): Promise<void> => Bun.sleep(25);

/** For one process. */
export class LocalReceivingRegistry implements ReceivingRegistry {
  readonly #generations = new Map<Generation, number>();
  /** by Space, in the order in which they began */
  readonly #entries = new Map<string, Set<Entry>>();

  begin(space: Space, generation: Generation, bytes: ReceivedBytes): ReceivingEntry | undefined {
    const received = this.#generations.get(generation) ?? 0;
    if (received >= UPLOADS_OF_GENERATION_MAX) return undefined;
    this.#generations.set(generation, received + 1);
    const key = spaceKeyOf(space);
    const entries = this.#entries.get(key) ?? new Set();
    const entry = { ...bytes, generation, appId: space.appId };
    this.#entries.set(key, entries.add(entry));
    return {
      pause: pauseReceiving,
      heldBefore: () => sumOf(untilEntry(entries, entry), ({ held }) => held),
      end: () => {
        if (!entries.delete(entry)) return;
        if (entries.size === 0) this.#entries.delete(key);
        const left = (this.#generations.get(generation) ?? 1) - 1;
        if (left === 0) this.#generations.delete(generation);
        else this.#generations.set(generation, left);
      },
    };
  }

  isReceiving(generation: Generation): boolean {
    return this.#generations.has(generation);
  }

  reservedBytes(space: Space): number {
    return sumOf(this.#entries.get(spaceKeyOf(space)) ?? [], ({ declared }) => declared);
  }

  heldBytes(space: Space): number {
    return sumOf(this.#entries.get(spaceKeyOf(space)) ?? [], ({ held }) => held);
  }

  heldBytesOfApp(appId: string, by: 'all' | 'other processes'): number {
    if (by === 'other processes') return 0;
    let sum = 0;
    for (const entries of this.#entries.values()) {
      sum += sumOf(entries, (entry) => (entry.appId === appId ? entry.held : 0));
    }
    return sum;
  }

  close(): void {
    this.#generations.clear();
    this.#entries.clear();
  }
}

function* untilEntry(entries: Iterable<Entry>, end: Entry): Generator<Entry> {
  for (const entry of entries) {
    if (entry === end) return;
    yield entry;
  }
}

function sumOf(entries: Iterable<Entry>, bytesOf: (entry: Entry) => number): number {
  let sum = 0;
  for (const entry of entries) sum += bytesOf(entry);
  return sum;
}
