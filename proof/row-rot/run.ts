/** Damages a copy of a known deployment, again and again, and judges what it answers. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { type Damage, damagesOf, makeDamage } from './damages.ts';
import { makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';

/** Damages go round all columns, each time in another row and bit, until the time is over. */
export async function rowRotSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const folder = makeTempFolder('row-rot', { fast: true });
  try {
    const wanted = { folder: folder.path, seed, damagesMax: Number.MAX_SAFE_INTEGER };
    const { damages, unseen, unmended, failures } = await runRowRot({ ...wanted, goesOn: () => !isOver() });
    return {
      counts: { damages, 'unseen by check': unseen.length, 'not mended by repair': unmended.length },
      found: failures.map(({ damage, wrong }) => `${damage}: ${wrong.join('; ')}`),
    };
  } finally {
    folder.remove();
  }
}

interface RowRotResult {
  readonly seed: number;
  readonly damages: number;
  /** the damage, and what was wrong */
  readonly failures: readonly { readonly damage: string; readonly wrong: readonly string[] }[];
  /** damages that a check does not name */
  readonly unseen: readonly string[];
  /** damages after which a repair leaves something unreadable */
  readonly unmended: readonly string[];
}

interface RowRotWanted {
  /** an empty folder, for all that is made */
  readonly folder: string;
  readonly seed: number;
  readonly damagesMax: number;
  /** asked before each damage */
  readonly goesOn?: () => boolean;
  /** is told of each damage before it is made */
  readonly onDamage?: (name: string) => void;
}

export async function runRowRot({
  folder,
  seed,
  damagesMax,
  goesOn,
  onDamage,
}: RowRotWanted): Promise<RowRotResult> {
  const origin = join(folder, 'origin');
  mkdirSync(origin);
  const known = await makeDeployment(origin);
  const failures: { damage: string; wrong: readonly string[] }[] = [];
  const unseen: string[] = [];
  const unmended: string[] = [];
  let damages = 0;
  for (const damage of damagesOf(join(origin, 'holdfast.db'), drawFrom(seed))) {
    if (damages >= damagesMax || goesOn?.() === false) break;
    onDamage?.(nameOf(damage));
    const copy = join(folder, 'copy');
    cpSync(origin, copy, { recursive: true });
    if (makeDamage(join(copy, 'holdfast.db'), damage)) {
      damages += 1;
      const { wrong, isSeen, isWholeAgain } = await judge(copy, known);
      const name = nameOf(damage);
      if (wrong.length > 0) failures.push({ damage: name, wrong });
      if (!isSeen) unseen.push(name);
      if (!isWholeAgain) unmended.push(name);
    }
    rmSync(copy, { recursive: true });
  }
  return { seed, damages, failures, unseen, unmended };
}

const nameOf = ({ table, column, row, bit }: Damage): string => `${table}.${column}, row ${row}, bit ${bit}`;

/** mulberry32 */
function drawFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
