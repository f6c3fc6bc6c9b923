import { expect, test } from 'bun:test';
import { MemoryNodes } from '../../../client/test/tree-fixture.ts';
import type { NamesRead } from '../known-names.ts';
import { ERRNO } from './fuse-wire.ts';
import { MountedNames, MountedTrees, ROOT_NODE } from './mounted-names.ts';

const SNAPSHOT = { id: '0'.repeat(32), name: 'a', root: '1'.repeat(64), time: 0 };
const NAMED: NamesRead['names'] = new Map([['a', [SNAPSHOT as never]]]);

test('what is in no list that can be read is absent, and the latest known, only where all lists can be read', async () => {
  let known: NamesRead = { names: NAMED, isWhole: true };
  const names = new MountedNames({ read: async () => known }, new MountedTrees(new MemoryNodes(), 2));
  const found = await names.lookup(ROOT_NODE, Buffer.from('a'));
  const folder = typeof found === 'object' ? found.node : 0;
  const looks = [
    () => names.lookup(folder, Buffer.from('2020-01-01T00-00-00Z')),
    () => names.attributesOf(folder),
    () => names.list(folder),
  ] as const;
  expect(await looks[0]()).toBe(undefined);
  known = { names: new Map(), isWhole: true };
  for (const look of looks) await expect(look()).rejects.toMatchObject({ errno: ERRNO.noEntry });
  known = { names: new Map(), isWhole: false };
  for (const look of looks) await expect(look()).rejects.toThrow('names may be missing');
  known = { names: NAMED, isWhole: false };
  await expect(looks[0]()).rejects.toThrow('names may be missing');
  await expect(names.lookup(folder, Buffer.from('latest'))).rejects.toThrow('names may be missing');
  expect(await looks[1]()).toMatchObject({ node: folder });
});
