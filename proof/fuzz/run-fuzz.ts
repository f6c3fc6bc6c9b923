/**
 * Fuzzing that is guided by what the parser says: an input that gets an answer or a refusal not seen before is kept, and changed
 * further. The runtime tells no coverage of branches; a refusal names the branch it comes from.
 */
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { FUZZ_TARGETS, type FuzzTarget } from './targets.ts';

/** bytes; longer ones only take longer */
const INPUT_BYTES_MAX = 4096;
const KEPT_MAX = 256;
const INTERESTING = [0, 1, 0x7f, 0x80, 0xff, 0x22, 0x2e, 0x2f, 0x3c, 0x5c, 0x7b];

interface FuzzFault {
  readonly target: string;
  /** base64 */
  readonly input: string;
  readonly error: string;
}

interface FuzzResult {
  readonly inputs: number;
  /** inputs that were kept because of what they were answered */
  readonly kept: number;
  readonly found: readonly FuzzFault[];
}

interface FuzzOptions {
  readonly seed: number;
  /** of each target */
  readonly inputs: number;
  readonly targets?: readonly FuzzTarget[];
  readonly isOver?: () => boolean;
}

export async function fuzzSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const { inputs, kept, found } = runFuzz({ seed, inputs: Number.MAX_SAFE_INTEGER, isOver });
  return {
    counts: { inputs, 'kept inputs': kept },
    found: found.map(({ target, input, error }) => `${target}, base64 ${input}: ${error}`),
  };
}

/** The same inputs for the same seed. Goes round the targets, so that one which is stopped early has fuzzed all of them. */
export function runFuzz({
  seed,
  inputs,
  targets = FUZZ_TARGETS,
  isOver = () => false,
}: FuzzOptions): FuzzResult {
  const random = makeRandom(seed);
  const runs = targets.map((target) => new TargetRun(target));
  const found: FuzzFault[] = [];
  let done = 0;
  for (const run of runs) found.push(...run.begin());
  for (let index = 0; index < inputs && !isOver(); index += 1) {
    for (const run of runs) {
      const fault = run.step(random);
      if (fault !== undefined) found.push(fault);
      done += 1;
    }
  }
  return { inputs: done, kept: runs.reduce((sum, { kept }) => sum + kept.length, 0), found };
}

class TargetRun {
  readonly #target: FuzzTarget;
  readonly #seen = new Set<string>();
  readonly kept: Uint8Array[] = [];

  constructor(target: FuzzTarget) {
    this.#target = target;
  }

  /** The seeds themselves. */
  begin(): FuzzFault[] {
    return this.#target.seeds.map((seed) => this.#try(seed)).filter((fault) => fault !== undefined);
  }

  step(random: SeededRandom): FuzzFault | undefined {
    const { seeds } = this.#target;
    const isFresh = this.kept.length === 0 || random.below(8) === 0;
    return this.#try(mutate(pick(random, isFresh ? seeds : this.kept), pick(random, seeds), random));
  }

  #try(input: Uint8Array): FuzzFault | undefined {
    let said: string;
    try {
      said = `answers ${this.#target.run(input)}`;
    } catch (error) {
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      const isRefusal = this.#target.refusals.includes(name);
      if (!isRefusal)
        return {
          target: this.#target.name,
          input: Buffer.from(input).toString('base64'),
          error: `${name}: ${message}`,
        };
      said = `${name} ${message.replaceAll(/\d+/g, '').slice(0, 60)}`;
    }
    if (!this.#seen.has(said) && this.kept.length < KEPT_MAX) {
      this.#seen.add(said);
      this.kept.push(input);
    }
    return undefined;
  }
}

function pick<T>(random: SeededRandom, items: readonly T[]): T {
  return items[random.below(items.length)] as T;
}

/** One to four changes: a bit, a byte, a piece removed, doubled or taken from another input. */
function mutate(input: Uint8Array, other: Uint8Array, random: SeededRandom): Uint8Array {
  let bytes = Buffer.from(input);
  for (let left = 1 + random.below(4); left > 0; left -= 1) {
    const at = random.below(bytes.length + 1);
    const length = 1 + random.below(16);
    const kind = random.below(6);
    if (kind === 0 && at < bytes.length) bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    else if (kind === 1 && at < bytes.length) bytes[at] = pick(random, INTERESTING);
    else if (kind === 2 && at < bytes.length) bytes[at] = random.below(256);
    else if (kind === 3) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
    else if (kind === 4) bytes = Buffer.concat([bytes.subarray(0, at + length), bytes.subarray(at)]);
    else {
      const from = random.below(other.length + 1);
      bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(from, from + length), bytes.subarray(at)]);
    }
  }
  return bytes.subarray(0, INPUT_BYTES_MAX);
}
