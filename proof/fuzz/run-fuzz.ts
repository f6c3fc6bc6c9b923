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
  // Only the name and the message of a refusal are looked at.
  const framesBefore = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return fuzz(targets, random, { inputs, isOver });
  } finally {
    Error.stackTraceLimit = framesBefore;
  }
}

function fuzz(
  targets: readonly FuzzTarget[],
  random: SeededRandom,
  { inputs, isOver }: Required<Pick<FuzzOptions, 'inputs' | 'isOver'>>,
): FuzzResult {
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

/** longer than the longest input with all of its changes */
const scratch = new Uint8Array(2 * INPUT_BYTES_MAX);

/** One to four changes: a bit, a byte, a piece removed, doubled or taken from another input. */
function mutate(input: Uint8Array, other: Uint8Array, random: SeededRandom): Uint8Array {
  const bytes = scratch;
  let end = Math.min(input.length, INPUT_BYTES_MAX);
  bytes.set(end === input.length ? input : input.subarray(0, end));
  for (let left = 1 + random.below(4); left > 0; left -= 1) {
    const at = random.below(end + 1);
    const length = 1 + random.below(16);
    const kind = random.below(6);
    if (kind === 0 && at < end) bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    else if (kind === 1 && at < end) bytes[at] = pick(random, INTERESTING);
    else if (kind === 2 && at < end) bytes[at] = random.below(256);
    else if (kind === 3) {
      const from = Math.min(at + length, end);
      bytes.copyWithin(at, from, end);
      end -= from - at;
    } else if (kind === 4) {
      const doubled = Math.min(length, end - at);
      bytes.copyWithin(at + doubled, at, end);
      end += doubled;
    } else if (kind === 5) {
      const from = random.below(other.length + 1);
      const taken = Math.min(length, other.length - from);
      bytes.copyWithin(at + taken, at, end);
      for (let index = 0; index < taken; index += 1) bytes[at + index] = other[from + index] as number;
      end += taken;
    }
  }
  return bytes.slice(0, Math.min(end, INPUT_BYTES_MAX));
}
