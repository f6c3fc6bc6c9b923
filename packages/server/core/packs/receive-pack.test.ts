import { expect, test } from 'bun:test';
import { makePack, plain } from '../../../../test/support/planted-pack.ts';
import { CoreWorld, smallNode } from '../test/core-fixture.ts';
import { PackClient, statesOf } from '../test/pack-fixture.ts';

test('a PUT to a pack keeps the rules of the upload target', async () => {
  const world = await CoreWorld.open();
  const client = new PackClient(world, false);
  const node = smallNode(1);
  const pack = await client.open([node]);
  const body = makePack([plain(node)]);
  expect(await client.put(pack, body, { 'if-none-match': '"x"' })).toBe(403);
  expect(await client.put(pack, body, { 'content-type': 'application/octet-stream' })).toBe(403);
  const forged = { ...pack, url: pack.url.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) };
  expect(await client.put(forged, body)).toBe(403);
  expect(await client.put(pack, body)).toBe(200);
  // 403 comes before 412.
  expect(await client.put(pack, body, { 'if-none-match': '"x"' })).toBe(403);
  expect(await client.put(pack, makePack([]))).toBe(412);
  world.now = pack.expiresAt;
  expect(await client.put(pack, body)).toBe(403);
  expect(statesOf(await client.lease(pack.id))).toEqual(['ready']);
  await world.close();
});
