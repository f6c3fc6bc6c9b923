import { expect, test } from 'bun:test';
import { PACK_BYTES_MAX } from '@holdfast/protocol';
import { makePack, plain } from '../../../../test/support/planted-pack.ts';
import type { Generation } from '../model.ts';
import { receiveUpload } from '../receive-upload.ts';
import { CoreWorld, failureOf, ORIGIN, SPACE, smallNode } from '../test/core-fixture.ts';
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

test('a PUT to a pack that is finished is refused before its bytes are read', async () => {
  const world = await CoreWorld.open();
  const client = new PackClient(world, false);
  const { url, headers } = await client.open([smallNode(1)]);
  let reads = 0;
  const put = () =>
    receiveUpload(world.core, {
      ...{ token: url.slice(`${ORIGIN}/uploads/`.length), declaredLength: undefined },
      ...{ contentType: headers['content-type'], ifNoneMatch: headers['if-none-match'] },
      body: new ReadableStream<Uint8Array>(
        {
          pull: (controller) => {
            reads += 1;
            controller.close();
          },
        },
        { highWaterMark: 0 },
      ),
    });
  await put();
  expect(reads).toBe(1);
  expect((await failureOf(put())).status).toBe(412);
  expect(reads).toBe(1);
  await world.close();
});

test('the rows may rest when nodes are leased and no pack is on its way', async () => {
  const world = await CoreWorld.open();
  const client = new PackClient(world, false);
  let rests = 0;
  world.core.metadata.rest = () => {
    rests += 1;
  };
  const { upload } = world.core.content;
  if (upload.kind !== 'server') throw new Error('the server receives here');
  const [one, other] = [smallNode(1), smallNode(2)];
  const pack = await client.open([other]);
  const sending = new TransformStream<Uint8Array, Uint8Array>();
  const target = { space: SPACE, generation: pack.id as Generation };
  const receiving = upload.receiver.receivePack(target, sending.readable, 100, PACK_BYTES_MAX);
  await client.send([one]);
  await client.leases([one]);
  expect(rests).toBe(0);
  const sender = sending.writable.getWriter();
  await Promise.all([sender.write(new Uint8Array(100)), sender.close()]);
  await (await receiving).release();
  expect(await client.put(pack, makePack([plain(other)]))).toBe(200);
  expect(rests).toBe(0);
  await client.lease(pack.id);
  expect(rests).toBe(1);
  await client.leases([one, other]);
  expect(rests).toBe(2);
  await world.close();
});
