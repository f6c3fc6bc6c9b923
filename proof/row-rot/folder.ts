/** A data folder with one wrong value of a row. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readFailures } from '../failures.ts';
import { type Damage, damagesOf, makeDamage, nameOf, parseDamage } from './damages.ts';
import { isRefusal, JOURNEYS, type Journey } from './journeys.ts';
import { RenewedCopy } from './renewed-copy.ts';
import type { DamagedCopy, Draw, Subject, Wrong } from './subject.ts';
import { openFolder } from './world.ts';

/** The same, and each damaged folder goes one of the ways before it is judged. */
export function journeysSubject(folder: string, journeys = JOURNEYS): Subject {
  const { open, damageOnce, damages } = openSubject(folder);
  const through = ({ name, make }: Wrong, journey: Journey): Wrong => {
    return { name: `${name}, ${journey.name}`, make: () => goThrough(journey, folder, make) };
  };
  return {
    open,
    *damages(draw) {
      for (const { damage, rest } of listKnown('row-rot-journeys')) {
        const journey = journeys.find(({ name }) => name === rest);
        if (journey !== undefined) yield through(damageOnce(damage), journey);
      }
      for (const wrong of damages(draw)) yield through(wrong, journeys[draw(journeys.length)] as Journey);
    },
  };
}

const listKnown = (section: string) => readFailures(section).flatMap(({ again }) => parseDamage(again) ?? []);

/** `make` damages the copy below `folder`, or will do so on the way, when it is told of a step. */
export async function goThrough(
  journey: Journey,
  folder: string,
  make: Wrong['make'],
  onStep?: () => undefined,
): Promise<DamagedCopy | undefined> {
  const damaged = await make();
  if (damaged === undefined) return undefined;
  const [kept, scratch] = [join(folder, 'kept'), join(folder, 'scratch')];
  cpSync(join(folder, 'copy'), kept, { recursive: true });
  mkdirSync(scratch);
  const remove = async (): Promise<void> => {
    for (const path of [kept, scratch]) rmSync(path, { recursive: true });
    await damaged.remove();
  };
  const former = openFolder(kept);
  try {
    return { ...(await journey.go(join(folder, 'copy'), scratch, onStep)), former, remove };
  } catch (error) {
    if (isRefusal(error)) return { open: damaged.open, former, refusal: error.message, remove };
    await remove();
    throw error;
  }
}

/** A data folder below `folder`, which is empty, and one wrong value of a row. The faults that were found come first. */
export function folderSubject(folder: string): Subject {
  const { open, damageOnce, damages } = openSubject(folder);
  return {
    open,
    *damages(draw) {
      for (const { damage } of listKnown('row-rot')) yield damageOnce(damage);
      yield* damages(draw);
    },
  };
}

function openSubject(folder: string) {
  const [origin, copy] = [join(folder, 'origin'), join(folder, 'copy')];
  mkdirSync(origin);
  const renewed = new RenewedCopy(origin);
  const damageOnce = (damage: Damage): Wrong => ({
    name: nameOf(damage),
    async make() {
      renewed.make(copy);
      const isMade = makeDamage(join(copy, 'holdfast.db'), damage);
      return isMade ? { open: openFolder(copy), remove: async () => undefined } : undefined;
    },
  });
  return {
    ...{ open: openFolder(origin), damageOnce },
    *damages(draw: Draw) {
      for (const damage of damagesOf(join(origin, 'holdfast.db'), draw)) yield damageOnce(damage);
    },
  };
}
