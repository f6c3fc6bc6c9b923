/** A backup reports its progress. */
import { afterEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { CoreWorld, objectNode } from '../core/test/core-fixture.ts';
import { makeBackup } from './make-backup.ts';

const OBJECTS = 20;
const folder = makeTempFolder('make-backup');
const umask = process.umask();
afterEach(() => {
  process.umask(umask);
  folder.remove();
});

test('each object that is copied is told', async () => {
  const world = await CoreWorld.open();
  await world.publish(...Array.from({ length: OBJECTS }, (_, index) => objectNode(index)));
  const told: number[] = [];
  await makeBackup(
    { dataDir: world.dataDir, folder: join(folder.path, 'backup') },
    { onProgress: (step, copied) => step === 'copying objects' && told.push(copied) },
  );
  await world.close();
  expect(new Set(told).size).toBe(OBJECTS + 1);
  expect(told).toEqual(told.toSorted((one, other) => one - other));
});
