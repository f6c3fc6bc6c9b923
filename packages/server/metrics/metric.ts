/** Counters, gauges, histograms and labelled families of them. Incrementing allocates nothing. */

/** How the values of several processes become one: gauges by their own rule; counters and histograms are always summed. */
export type GaugeMerge = 'sum' | 'max' | 'min';
export type MetricType = 'counter' | 'gauge' | 'histogram';

/** The value of a metric at one moment. A histogram has the count of each bucket, the count above all buckets, and the sum. */
export type SampleValue = number | readonly number[];

export class Counter {
  value = 0;

  add(amount = 1): void {
    this.value += amount;
  }

  /** For a total counted elsewhere, such as by the kernel. */
  raiseTo(total: number): void {
    if (total > this.value) this.value = total;
  }

  read(): SampleValue {
    return this.value;
  }
}

export class Gauge {
  value = 0;

  set(value: number): void {
    this.value = value;
  }

  add(amount: number): void {
    this.value += amount;
  }

  read(): SampleValue {
    return this.value;
  }
}

/** Upper bounds in seconds. A local read takes tens of microseconds, an engine across a network tens of milliseconds. */
export const SECONDS_BUCKETS: readonly number[] = [
  0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  5, 10,
];

export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    const counts = this.#counts;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1;
    counts[bucket] = (counts[bucket] as number) + 1;
    this.#sum += value;
  }

  read(): SampleValue {
    return [...this.#counts, this.#sum];
  }
}

interface Readable {
  read(): SampleValue;
}

export type Labels<Name extends string> = Readonly<Record<Name, string>>;

const SEPARATOR = '\u0000';

/** One metric with labels. `with` finds the child of some label values, and makes it: keep the child where it is used often. */
export class Family<Child extends Readable, Name extends string> {
  readonly #names: readonly Name[];
  readonly #make: () => Child;
  readonly #children = new Map<string, { readonly labels: string; readonly child: Child }>();

  constructor(names: readonly Name[], make: () => Child) {
    this.#names = names;
    this.#make = make;
  }

  with(labels: Labels<Name>): Child {
    const values = this.#names.map((name) => labels[name]);
    const key = values.join(SEPARATOR);
    const known = this.#children.get(key);
    if (known !== undefined) return known.child;
    // The caller must bound labels that clients can choose; this is only the last limit on memory.
    if (this.#children.size >= 50_000) return this.#overflow();
    return this.#add(key, values);
  }

  /** Removes all children: for gauges whose label values are read anew. */
  clear(): void {
    this.#children.clear();
  }

  /** Each child with its labels as they are rendered, `name="value",…`. */
  *samples(): Iterable<readonly [labels: string, value: SampleValue]> {
    for (const { labels, child } of this.#children.values()) yield [labels, child.read()];
  }

  #overflow(): Child {
    const values = this.#names.map(() => 'other');
    const key = values.join(SEPARATOR);
    return this.#children.get(key)?.child ?? this.#add(key, values);
  }

  #add(key: string, values: readonly string[]): Child {
    const child = this.#make();
    const labels = this.#names
      .map((name, index) => `${name}="${escapeLabel(values[index] ?? '')}"`)
      .join(',');
    this.#children.set(key, { labels, child });
    return child;
  }
}

export class Counters<Name extends string> extends Family<Counter, Name> {
  add(labels: Labels<Name>, amount = 1): void {
    this.with(labels).add(amount);
  }
}

export class Gauges<Name extends string> extends Family<Gauge, Name> {
  set(labels: Labels<Name>, value: number): void {
    this.with(labels).set(value);
  }

  add(labels: Labels<Name>, amount: number): void {
    this.with(labels).add(amount);
  }
}

export class Histograms<Name extends string> extends Family<Histogram, Name> {
  observe(labels: Labels<Name>, value: number): void {
    this.with(labels).observe(value);
  }
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };

function escapeLabel(text: string): string {
  return text.replace(/[\\"\n]/g, (character) => ESCAPES[character] as string);
}
