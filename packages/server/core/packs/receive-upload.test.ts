/** The embedded upload target: the order of its checks, and PUTs that overlap each other, leases, collections, crashes. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { runGc } from '../collect/run-gc.ts';
import type { UploadRequest } from '../lease/upload-rules.ts';
import type { UploadEvidence } from '../model.ts';
import { receiveUpload } from '../packs/receive-upload.ts';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import {
  type AwaitingUpload,
  CALLER,
  CoreWorld,
  failureOf,
  Gate,
  MINUTE_MS,
  ORIGIN,
  objectNode,
  SlowBody,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import type { UploadReceiver } from '../upload-ports.ts';

const NODE_BYTES_MAX = 100_000;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open({ nodeBytesMax: NODE_BYTES_MAX });
});
afterEach(() => world.close());

const untouched = (): ReadableStream<Uint8Array> =>
  new ReadableStream(
    {
      pull: () => {
        throw new Error('planted: this body is not to be read');
      },
    },
    { highWaterMark: 0 },
  );

function send({ upload }: AwaitingUpload, changes: Partial<UploadRequest>): Promise<void> {
  return receiveUpload(world.core, {
    token: upload.url.slice(`${ORIGIN}/uploads/`.length),
    contentType: NODE_MEDIA_TYPE,
    ifNoneMatch: '*',
    declaredLength: undefined,
    body: untouched(),
    ...changes,
  });
}

test('signature and expiry come first, then the headers, then whether it is finished, then the length', async () => {
  const node = smallNode(1);
  const upload = await world.begin(node);
  await world.put(upload, node.bytes);
  const wrong = { contentType: 'text/plain', ifNoneMatch: undefined, declaredLength: NODE_BYTES_MAX + 1 };
  expect(await failureOf(send(upload, { ...wrong, token: 'A.A' }))).toMatchObject({
    code: 'FORBIDDEN',
    message: expect.stringContaining('not one this server signed'),
  });
  const headers = { contentType: NODE_MEDIA_TYPE, ifNoneMatch: '*' };
  for (const one of [
    { ...headers, ifNoneMatch: undefined },
    { ...headers, contentType: 'text/plain' },
  ]) {
    expect(await failureOf(send(upload, { ...wrong, ...one }))).toMatchObject({
      status: 403,
      message: expect.stringContaining('headers'),
    });
  }
  expect(await failureOf(send(upload, { ...wrong, ...headers }))).toMatchObject({
    code: 'CONFLICT',
    status: 412,
  });
  world.now = upload.upload.expiresAt;
  expect(await failureOf(send(upload, wrong))).toMatchObject({
    status: 403,
    message: expect.stringContaining('expired'),
  });
});

test('a URL is good until the last millisecond, and for a body that began before it ended', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  world.now = upload.upload.expiresAt - 1;
  const body = new SlowBody(node.bytes);
  const put = world.put(upload, body);
  world.now += 60 * MINUTE_MS;
  expect((await failureOf(send(upload, {}))).status).toBe(403);
  body.finish();
  await put;
  expect((await world.lease(node)).state).toBe('ready');
});

test.each([
  ['declared', NODE_BYTES_MAX + 1],
  ['not declared', undefined],
] as const)(
  'a body over the limit, its length %s, is 413 and finishes the generation',
  async (_, declared) => {
    const node = smallNode(1);
    const upload = await world.begin(node);
    const tooLong = new Uint8Array(NODE_BYTES_MAX + 1);
    const refused =
      declared === undefined ? world.put(upload, tooLong) : send(upload, { declaredLength: declared });
    expect(await failureOf(refused)).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', status: 413 });
    expect((await failureOf(world.put(upload, node.bytes))).status).toBe(412);
    const rejected = await world.begin(node);
    expect(rejected).toMatchObject({ rejection: { code: 'NODE_TOO_LARGE' } });
    await world.put(rejected, node.bytes);
    expect((await world.lease(node)).state).toBe('ready');
  },
);

test('an interrupted PUT leaves nothing and the same URL works; its length is reserved only while it runs', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  const body = new SlowBody(node.bytes);
  const put = world.put(upload, body, node.bytes.length);
  const during = await getUsage(world.core, SPACE);
  expect(during).toMatchObject({ reservedBytes: node.bytes.length, nodeCount: 0 });
  body.breakOff();
  await expect(put).rejects.toThrow('planted');
  expect((await getUsage(world.core, SPACE)).reservedBytes).toBe(0);
  expect((await world.begin(node)).state).toBe('awaiting_upload');
  await world.put(upload, node.bytes, node.bytes.length);
  expect(await getUsage(world.core, SPACE)).toMatchObject({ reservedBytes: 0, nodeCount: 0 });
  expect((await world.lease(node)).state).toBe('ready');
});

test('of overlapping PUTs the first to complete wins, whichever began first and whatever bytes the others bring', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  const slow = new SlowBody(node.bytes);
  const wrong = new SlowBody(objectNode(2).bytes);
  const losers = [slow, wrong].map((body) => failureOf(world.put(upload, body)));
  await world.put(upload, node.bytes);
  slow.finish();
  wrong.finish();
  expect((await Promise.all(losers)).map(({ status }) => status)).toEqual([412, 412]);
  expect((await world.lease(node)).state).toBe('ready');
  expect((await readContent(world.core, SPACE, node.hash, undefined, CALLER)).body).toEqual(node.content);
});

test('wrong bytes that complete first win as well, and the right ones that lost leave nothing', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  const right = new SlowBody(node.bytes);
  const rightPut = world.put(upload, right);
  await world.put(upload, smallNode(9).bytes);
  right.finish();
  expect((await failureOf(rightPut)).status).toBe(412);
  expect(await world.lease(node)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
  await world.sweepAll();
  expect(world.objectFiles()).toEqual([]);
});

test('a good URL of a finished generation resurrects nothing after the collection', async () => {
  const world15 = await CoreWorld.open({ uploadTtlMs: 15 * MINUTE_MS });
  const node = objectNode(1);
  const upload = await world15.begin(node);
  await world15.put(upload, node.bytes);
  await world15.lease(node);
  world15.now += MINUTE_MS;
  expect(await runGc(world15.core, SPACE, 1)).toMatchObject({ deleted: 1 });
  expect((await failureOf(world15.put(upload, node.bytes))).status).toBe(412);
  expect((await world15.lease(node)).state).toBe('awaiting_upload');
  expect((await failureOf(world15.put(upload, node.bytes))).status).toBe(412);
  await world15.close();
});

test('a small body is judged against a spent URL when it becomes a row', async () => {
  const node = smallNode(1);
  const upload = await world.begin(node);
  const whole = (bytes: Uint8Array): Promise<void> =>
    send(upload, { declaredLength: bytes.length, body: async () => bytes.slice() });
  const cut = { declaredLength: 50, body: () => Promise.reject(new Error('planted: closed')) };
  await expect(send(upload, cut)).rejects.toThrow('planted');
  await whole(node.bytes);
  for (const bytes of [node.bytes, smallNode(2).bytes]) {
    expect(await failureOf(whole(bytes))).toMatchObject({ code: 'CONFLICT', status: 412 });
  }
  expect((await world.lease(node)).state).toBe('ready');
  expect((await failureOf(whole(node.bytes))).status).toBe(412);
  world.now += MINUTE_MS;
  expect(await runGc(world.core, SPACE, 1)).toMatchObject({ deleted: 1 });
  expect((await failureOf(whole(node.bytes))).status).toBe(412);
  expect(await getUsage(world.core, SPACE)).toMatchObject({ nodeCount: 0, reservedBytes: 0 });
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  expect((await failureOf(whole(node.bytes))).status).toBe(412);
});

test.each(['before the row is forgotten', 'after the row is forgotten'] as const)(
  'a PUT that lost long ago and completes %s leaves no object without a record',
  async (when) => {
    const node = objectNode(1);
    const upload = await world.begin(node);
    const late = new SlowBody(node.bytes);
    const latePut = world.put(upload, late);
    await world.put(upload, node.bytes);
    await world.lease(node);
    world.now += MINUTE_MS;
    const deleted = new Gate();
    world.doors.delete = async (step) => {
      await step();
      await deleted.pass();
    };
    const pass = runGc(world.core, SPACE, 1);
    await deleted.reached;
    if (when === 'after the row is forgotten') {
      deleted.open();
      await pass;
    }
    late.finish();
    expect((await failureOf(latePut)).status).toBe(412);
    deleted.open();
    expect(await pass).toMatchObject({ deleted: 1 });
    expect(await world.row(node)).toBeUndefined();
    delete world.doors.delete;
    await world.sweepAll();
    expect(world.objectFiles()).toEqual([]);
  },
);

test('a PUT that completes while its generation is gone from the records is 412 and leaves nothing', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  const body = new SlowBody(node.bytes);
  const put = world.put(upload, body);
  await world.core.metadata.transact(SPACE, async (tx) => {
    await tx.delete('upload', (await tx.findUpload(node.hash))!);
  });
  body.finish();
  expect((await failureOf(put)).status).toBe(412);
  await world.sweepAll();
  expect(world.objectFiles()).toEqual([]);
});

test('a PUT cut by a crash before its last transaction counts for nothing, and its URL still works', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  world.doors.seal = async (step) => {
    await step();
    throw new Error('planted: the process ends here');
  };
  await expect(world.put(upload, node.bytes)).rejects.toThrow('planted');
  delete world.doors.seal;
  await world.restart();
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  await world.put(upload, node.bytes);
  await world.restart();
  expect((await world.lease(node)).state).toBe('ready');
});

test('a URL works for its own generation alone', async () => {
  const [a, b] = [smallNode(1), smallNode(2)];
  const first = await world.begin(a);
  await world.put(first, b.bytes);
  const second = await world.begin(a);
  expect(second.state).toBe('awaiting_replacement_upload');
  expect((await failureOf(world.put(first, a.bytes))).status).toBe(412);
  await world.put(second, a.bytes);
  expect((await world.lease(a)).state).toBe('ready');
});

test('a PUT whose generation is finished meanwhile is 412, also where a quota is full', async () => {
  const [node, object] = [smallNode(1), objectNode(2)];
  const upload = await world.begin(node);
  const whole = (): Promise<void> =>
    send(upload, { declaredLength: node.bytes.length, body: async () => node.bytes.slice() });
  await whole();
  world.quotas.space = { maxBytes: 0, maxNodes: undefined };
  expect((await failureOf(whole())).status).toBe(412);
  world.quotas.space = undefined;
  const sent = await world.begin(objectNode(3));
  await world.put(sent, objectNode(3).bytes);
  expect((await failureOf(send(sent, {}))).status).toBe(412);
  const begun = await world.begin(object);
  const { upload: uploads } = world.core.content;
  if (uploads.kind !== 'server') throw new Error('the server receives here');
  const evidence = { verdict: 'good', canonicalSize: 1, size: 1, inline: false } as UploadEvidence;
  const seal = async (): Promise<boolean> => false;
  const staged = { evidence, inlineBytes: undefined, seal, release: async () => undefined };
  const receiver = { receive: async () => staged } as unknown as UploadReceiver;
  const core = { ...world.core, content: { ...world.core.content, upload: { ...uploads, receiver } } };
  const token = begun.upload.url.slice(`${ORIGIN}/uploads/`.length);
  const request = { token, contentType: NODE_MEDIA_TYPE, ifNoneMatch: '*', declaredLength: undefined };
  expect((await failureOf(receiveUpload(core, { ...request, body: null }))).status).toBe(412);
  expect((await world.core.metadata.findUpload(SPACE, object.hash))?.evidence).toBeUndefined();
});
