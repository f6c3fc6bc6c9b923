/** Which generations are being received right now, and how many bytes they reserve per Space. */
import type { Generation, Space } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import { UPLOADS_OF_GENERATION_MAX } from '../../core/upload-judge.ts';

export interface ReceivingRegistry {
  /**
   * `bytes`: the declared length. Returns the function that ends the receiving; calling it twice does no harm. `undefined`: as many
   * are being received of the generation as may be, by all processes together.
   */
  begin(space: Space, generation: Generation, bytes: number): (() => void) | undefined;
  isReceiving(generation: Generation): boolean;
  reservedBytes(space: Space): number;
  close(): void;
}

/** For one process. */
export class LocalReceivingRegistry implements ReceivingRegistry {
  readonly #generations = new Map<Generation, number>();
  readonly #bytes = new Map<string, number>();

  begin(space: Space, generation: Generation, bytes: number): (() => void) | undefined {
    if ((this.#generations.get(generation) ?? 0) >= UPLOADS_OF_GENERATION_MAX) return undefined;
    const key = spaceKeyOf(space);
    addTo(this.#generations, generation, 1);
    addTo(this.#bytes, key, bytes);
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      addTo(this.#generations, generation, -1);
      addTo(this.#bytes, key, -bytes);
    };
  }

  isReceiving(generation: Generation): boolean {
    return this.#generations.has(generation);
  }

  reservedBytes(space: Space): number {
    return this.#bytes.get(spaceKeyOf(space)) ?? 0;
  }

  close(): void {
    this.#generations.clear();
    this.#bytes.clear();
  }
}

function addTo(sums: Map<string, number>, key: string, change: number): void {
  const sum = (sums.get(key) ?? 0) + change;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
