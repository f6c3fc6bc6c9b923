/** The values that were used last, up to a bound. */
export class Kept<T> {
  readonly #weightMax: number;
  /** the one used last is last */
  readonly #values = new Map<string, { readonly value: T; readonly weight: number }>();
  #weight = 0;

  constructor(weightMax: number) {
    this.#weightMax = weightMax;
  }

  find(key: string): T | undefined {
    const kept = this.#values.get(key);
    if (kept === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, kept);
    return kept.value;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  /** Replaces an earlier value of the key. */
  keep(key: string, value: T, weight = 1): void {
    this.forget(key);
    this.#values.set(key, { value, weight });
    this.#weight += weight;
    for (const [oldest, forgotten] of this.#values) {
      if (this.#weight <= this.#weightMax) return;
      this.#values.delete(oldest);
      this.#weight -= forgotten.weight;
    }
  }

  forget(key: string): void {
    this.#weight -= this.#values.get(key)?.weight ?? 0;
    this.#values.delete(key);
  }
}
