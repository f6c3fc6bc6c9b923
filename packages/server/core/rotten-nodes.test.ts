import { expect, test } from 'bun:test';
import { type RotReport, RottenNodes } from './rotten-nodes.ts';
import type { RottenSpace, Walk } from './upkeep-ports.ts';

const HASH = 'a'.repeat(64);
const SPACE = { appId: 'app', spaceId: 'space' };
const OTHER = { appId: 'app', spaceId: 'other' };

const rowsOf = (...rows: readonly RottenSpace[]) => ({
  page: ((_kind: string, { after, limit }: Walk) => {
    const from = rows.findIndex(({ position }) => position === after) + 1;
    return rows.slice(from, from + limit);
  }) as never,
});
const row = (spaceId: string, nodes: number): RottenSpace => ({
  space: { appId: 'app', spaceId },
  nodes,
  position: spaceId,
});

test('a node that this process finds rotten or heals counts at once, and is told', () => {
  const reports: RotReport[] = [];
  const rot = new RottenNodes((report) => reports.push(report));
  expect(rot.countIn(SPACE)).toBe(0);
  rot.noteRotten(SPACE, HASH, new Error('block 3 is wrong'));
  expect([rot.countIn(SPACE), rot.countIn(OTHER), rot.countIn({ ...SPACE, appId: 'b' })]).toEqual([1, 0, 0]);
  rot.noteReady(SPACE, HASH, 'healed');
  expect(rot.countIn(SPACE)).toBe(0);
  // Found by another process, and healed by this one before it looked.
  rot.noteReady(SPACE, HASH, 'sound');
  expect(rot.countIn(SPACE)).toBe(0);
  expect(reports).toEqual([
    { kind: 'rotten', space: SPACE, hash: HASH, reason: 'block 3 is wrong' },
    { kind: 'healed', space: SPACE, hash: HASH },
    { kind: 'sound', space: SPACE, hash: HASH },
  ]);
});

test('a reading of the store brings what other processes found in any number of Spaces, and drops what is healed', async () => {
  const rot = new RottenNodes(() => undefined);
  rot.noteRotten(OTHER, HASH, new Error('lost'));
  const rows = Array.from({ length: 250 }, (_, index) => row(`space-${index}`, index + 1));
  await rot.look(rowsOf(...rows));
  expect(rot.countIn(OTHER)).toBe(0);
  expect(rows.every(({ space, nodes }) => rot.countIn(space) === nodes)).toBe(true);
  await rot.look(rowsOf());
  expect(rows.some(({ space }) => rot.countIn(space) > 0)).toBe(false);
});

test('a node found rotten during a reading is not lost to it', async () => {
  const rot = new RottenNodes(() => undefined);
  const read = Promise.withResolvers<readonly RottenSpace[]>();
  const looking = rot.look({ page: (() => read.promise) as never });
  rot.noteRotten(SPACE, HASH, new Error('lost'));
  read.resolve([row('other', 2)]);
  await looking;
  expect([rot.countIn(SPACE), rot.countIn(OTHER)]).toEqual([1, 2]);
});

test('a reading that fails leaves what is known', async () => {
  const rot = new RottenNodes(() => undefined);
  await rot.look(rowsOf(row('space', 3)));
  const failing = { page: () => Promise.reject(new Error('away')) };
  await expect(rot.look(failing)).rejects.toThrow('away');
  expect(rot.countIn(SPACE)).toBe(3);
});
