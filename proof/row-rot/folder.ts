/** A data folder with one wrong value of a row. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { damagesOf, makeDamage, nameOf } from './damages.ts';
import type { DamagedCopy, Subject } from './subject.ts';
import { openFolder } from './world.ts';

/** A data folder below `folder`, which is empty, and one wrong value of a row. */
export function folderSubject(folder: string): Subject {
  const origin = join(folder, 'origin');
  mkdirSync(origin);
  return {
    open: openFolder(origin),
    *damages(draw) {
      for (const damage of damagesOf(join(origin, 'holdfast.db'), draw)) {
        yield {
          name: nameOf(damage),
          make: async () => copyFolder(folder, (copy) => makeDamage(join(copy, 'holdfast.db'), damage)),
        };
      }
    },
  };
}

function copyFolder(folder: string, damage: (copy: string) => boolean): DamagedCopy | undefined {
  const copy = join(folder, 'copy');
  cpSync(join(folder, 'origin'), copy, { recursive: true });
  const remove = async (): Promise<void> => rmSync(copy, { recursive: true });
  if (damage(copy)) return { open: openFolder(copy), remove };
  rmSync(copy, { recursive: true });
  return undefined;
}
