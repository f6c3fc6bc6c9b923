import { describe, expect, test } from 'bun:test';
import { PACK_BYTES_MAX, type PackInstruction } from '@holdfast/protocol';
import { makePack, plain } from '../../../../test/support/planted-pack.ts';
import type { Core } from '../core.ts';
import type { Generation } from '../model.ts';
import type { StagedPack } from '../pack-ports.ts';
import { receiveUpload } from '../packs/receive-upload.ts';
import { CoreWorld, failureOf, ORIGIN, SPACE, smallNode } from '../test/core-fixture.ts';
import { PackClient, statesOf, usePackWorld } from '../test/pack-fixture.ts';
import type { UploadReceiver } from '../upload-ports.ts';

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

describe('a PUT', () => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(false, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  const send = ({ url, headers }: PackInstruction, body: ReadableStream<Uint8Array> | null, core: Core) =>
    receiveUpload(core, {
      ...{ token: url.slice(`${ORIGIN}/uploads/`.length), declaredLength: undefined, body },
      ...{ contentType: headers['content-type'], ifNoneMatch: headers['if-none-match'] },
    });
  /** The same core, which has received such a pack already. */
  const having = (staged: Partial<StagedPack>): Core => {
    const release = async (): Promise<void> => undefined;
    const receivePack = async () => ({ bytes: 9, seal: async () => true, release, ...staged });
    const receiver = { receivePack } as unknown as UploadReceiver;
    return { ...world.core, content: { ...world.core.content, upload: { kind: 'server', receiver } } };
  };
  const statusOf = async (sending: Promise<void>): Promise<number> => (await failureOf(sending)).status;

  test('to a pack that is finished is refused before its bytes are read', async () => {
    const pack = await client.open([smallNode(1)]);
    let reads = 0;
    const pull = (controller: ReadableStreamDefaultController): void => {
      reads += 1;
      controller.close();
    };
    const put = () => send(pack, new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 }), world.core);
    await put();
    expect(reads).toBe(1);
    expect(await statusOf(put())).toBe(412);
    expect(reads).toBe(1);
  });

  test('of too many bytes is judged at once', async () => {
    const pack = await client.open([smallNode(1)]);
    const seal = (): never => expect.unreachable('nothing is staged');
    expect(await statusOf(send(pack, null, having({ bytes: undefined, seal })))).toBe(413);
    expect(await client.pack(pack.id)).toMatchObject({ bytes: 0, isDiscarded: true });
  });

  test('that another one has overtaken is refused, and changes nothing', async () => {
    const pack = await client.open([smallNode(1)]);
    const isTaken = having({ seal: async () => false });
    expect(await statusOf(send(pack, null, isTaken))).toBe(412);
    expect(await client.pack(pack.id)).toMatchObject({ bytes: undefined });
    const first = makePack([plain(smallNode(1))]);
    const seal = async (): Promise<boolean> => {
      expect(await client.put(pack, first)).toBe(200);
      return true;
    };
    expect(await statusOf(send(pack, null, having({ seal })))).toBe(412);
    expect(await client.pack(pack.id)).toMatchObject({ bytes: first.length });
  });
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
