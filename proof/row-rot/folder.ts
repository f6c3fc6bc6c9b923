/** A data folder with one wrong value of a row. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { damagesOf, makeDamage, nameOf } from './damages.ts';
import { isRefusal, JOURNEYS, type Journey } from './journeys.ts';
import { RenewedCopy } from './renewed-copy.ts';
import type { DamagedCopy, Subject, Wrong } from './subject.ts';
import { openFolder } from './world.ts';

/** The same, and each damaged folder goes one of the ways before it is judged. */
export function journeysSubject(folder: string): Subject {
  const { open, damages } = folderSubject(folder);
  return {
    open,
    *damages(draw) {
      for (const { name, make } of damages(draw) as Iterable<Wrong>) {
        const journey = JOURNEYS[draw(JOURNEYS.length)] as Journey;
        yield { name: `${name}, ${journey.name}`, make: () => goThrough(journey, folder, make) };
      }
    },
  };
}

async function goThrough(
  journey: Journey,
  folder: string,
  make: Wrong['make'],
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
    return { ...(await journey.go(join(folder, 'copy'), scratch)), former, remove };
  } catch (error) {
    if (isRefusal(error)) return { open: damaged.open, former, refusal: error.message, remove };
    await remove();
    throw error;
  }
}

/** A data folder below `folder`, which is empty, and one wrong value of a row. */
export function folderSubject(folder: string): Subject {
  const [origin, copy] = [join(folder, 'origin'), join(folder, 'copy')];
  mkdirSync(origin);
  const renewed = new RenewedCopy(origin);
  return {
    open: openFolder(origin),
    *damages(draw) {
      for (const damage of damagesOf(join(origin, 'holdfast.db'), draw)) {
        yield {
          name: nameOf(damage),
          make: async () => {
            renewed.make(copy);
            return makeDamage(join(copy, 'holdfast.db'), damage)
              ? { open: openFolder(copy), remove: async () => undefined }
              : undefined;
          },
        };
      }
    },
  };
}
