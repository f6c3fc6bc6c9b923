/** Damages a copy of a known deployment, again and again, and judges what it answers. */
import { type KnownDeployment, makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';
import type { DamagedCopy, Draw, Subject } from './subject.ts';

interface RowRotResult {
  readonly seed: number;
  readonly damages: number;
  /** the damage, and what was wrong */
  readonly failures: readonly { readonly damage: string; readonly wrong: readonly string[] }[];
  /** damages that a check does not name */
  readonly unseen: readonly string[];
  /** damages after which a repair leaves something unreadable */
  readonly unmended: readonly string[];
  /** ways that a damaged deployment did not go, and what was said */
  readonly refusals: readonly string[];
}

interface RowRotWanted {
  readonly subject: Subject;
  readonly seed: number;
  readonly damagesMax: number;
  /** asked before each damage */
  readonly goesOn?: () => boolean;
  /** is told of each damage before it is made */
  readonly onDamage?: (name: string) => void;
}

export async function runRowRot(wanted: RowRotWanted): Promise<RowRotResult> {
  const { subject, seed, damagesMax, goesOn, onDamage } = wanted;
  const known = await makeDeployment(subject.open);
  const result = { failures: [] as RowRotResult['failures'][number][], unseen: [] as string[] };
  const [unmended, refusals]: [string[], string[]] = [[], []];
  let damages = 0;
  for await (const { name, make } of subject.damages(drawFrom(seed))) {
    if (damages >= damagesMax || goesOn?.() === false) break;
    onDamage?.(name);
    const copy = await make();
    if (copy === undefined) continue;
    damages += 1;
    if (copy.refusal !== undefined) refusals.push(`${name}: ${copy.refusal}`);
    const { wrong, isSeen, isWholeAgain } = await judgeCopy(copy, known);
    if (wrong.length > 0) result.failures.push({ damage: name, wrong });
    if (!isSeen) result.unseen.push(name);
    if (!isWholeAgain) unmended.push(name);
  }
  return { seed, damages, unmended, refusals, ...result };
}

async function judgeCopy(copy: DamagedCopy, known: KnownDeployment): ReturnType<typeof judge> {
  try {
    return await judge(copy, known);
  } finally {
    await copy.remove();
  }
}

/** mulberry32 */
function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
