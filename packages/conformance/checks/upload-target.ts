/** The upload target: what a signed URL allows, once. */
import { expectBytes, expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize, type SampleNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import type { Upload } from '../wire.ts';

const TARGET = 'contract 5: upload target';
const ONCE = 'contract 5: second PUT to a finished generation: 412, bytes unchanged, forever';
const ORDER = 'contract 5: judged in this order: signature and expiry 403, headers 403, finished 412';

async function putAnswers({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const answer = await client.put(await client.instruction(node.hash), node.bytes);
  expectStatus(answer, 200);
  expectEqual(answer.bytes.length, 0, 'length of the answer to a PUT', answer);
}

async function secondPut({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  expectStatus(await client.put(upload, node.bytes), 200);
  const refuse = async (when: string) => {
    for (const bytes of [node.bytes, makeNode().bytes, new Uint8Array()]) {
      expectError(await client.put(upload, bytes), 412, 'CONFLICT', when);
    }
  };
  await refuse('before the lease');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
  await refuse('after publication');
  const answer = await client.readContent(node.hash);
  expectBytes(answer.bytes, node.content, 'content after replayed PUTs', answer);
}

async function putAfterRejection({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  expectStatus(await client.put(upload, makeNode().bytes), 200);
  const lease = await client.leased(node.hash);
  expectThat(lease.state === 'awaiting_replacement_upload', 'a rejection', lease.state);
  expectError(
    await client.put(upload, node.bytes),
    412,
    'CONFLICT',
    'the rejected generation stays finished',
  );
  expectThat(lease.upload.url !== upload.url, 'a replacement has a URL of its own', 'the same URL');
  expectStatus(await client.put(lease.upload, node.bytes), 200);
}

async function overLimitFinishes({ client, target }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  const tooLarge = makeNodeOfCanonicalSize(target.nodeBytesMax + 1);
  expectError(
    await client.put(upload, inPieces(tooLarge.bytes)),
    413,
    'PAYLOAD_TOO_LARGE',
    'over the limit without a declared length',
  );
  expectError(await client.put(upload, node.bytes), 412, 'CONFLICT', 'a 413 finishes the generation');
  const lease = await client.leased(node.hash);
  expectThat(lease.state === 'awaiting_replacement_upload', 'a rejection', lease.state);
  expectEqual(lease.rejection.code, 'NODE_TOO_LARGE', 'rejection.code');
}

async function wrongHeaders({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  const wrongs: readonly Record<string, string | undefined>[] = [
    { 'if-none-match': undefined },
    { 'if-none-match': '"etag"' },
    { 'if-none-match': 'W/"*"' },
    { 'if-none-match': '*, "x"' },
    { 'content-type': undefined },
    { 'content-type': 'application/octet-stream' },
    { 'content-type': 'application/json' },
    { 'content-type': 'application/vnd.holdfast.cas-node.v2' },
  ];
  for (const headers of wrongs) {
    expectError(
      await client.put(upload, node.bytes, headers),
      403,
      'FORBIDDEN',
      `headers ${JSON.stringify(headers)}`,
    );
  }
  expectStatus(await client.put(upload, node.bytes), 200, 'refused PUTs leave the URL good');
  expectError(
    await client.put(upload, node.bytes, { 'if-none-match': undefined }),
    403,
    'FORBIDDEN',
    'headers before finished',
  );
}

async function tamperedUrl({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  const url = new URL(upload.url);
  const token = url.pathname.slice('/uploads/'.length);
  for (let at = 0; at < token.length; at += Math.max(1, Math.floor(token.length / 24))) {
    const other = token[at] === 'A' ? 'B' : 'A';
    await expectRefused(client, upload, `${token.slice(0, at)}${other}${token.slice(at + 1)}`, node);
  }
  const others = [
    token.slice(0, -1),
    token.slice(1),
    `${token}A`,
    `${token}${token}`,
    'x',
    'a.b',
    token.split('').reverse().join(''),
  ];
  for (const other of others) await expectRefused(client, upload, other, node);
  expectStatus(await client.put(upload, node.bytes), 200, 'the URL as it was given');
}

async function expectRefused(
  client: SpaceClient,
  upload: Upload,
  token: string,
  node: SampleNode,
): Promise<void> {
  const url = new URL(upload.url);
  url.pathname = `/uploads/${token}`;
  const answer = await client.put({ ...upload, url: url.href }, node.bytes);
  expectError(answer, 403, 'FORBIDDEN', 'a tampered upload URL');
  const headerless = await client.put({ ...upload, url: url.href }, node.bytes, {
    'if-none-match': undefined,
  });
  expectError(headerless, 403, 'FORBIDDEN', 'a tampered upload URL without headers');
}

async function otherMethods({ client }: CheckContext): Promise<void> {
  const upload = await client.instruction(makeNode().hash);
  const path = new URL(upload.url).pathname;
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'PATCH']) {
    const answer = await client.request(method, path);
    expectStatus(answer, 404, `${method} on the upload target`);
  }
}

async function noBearer({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  expectThat(
    upload.headers.authorization === undefined,
    'no bearer token in upload.headers',
    Object.keys(upload.headers),
  );
  expectStatus(
    await client.put(upload, node.bytes, { authorization: 'Bearer garbage' }),
    200,
    'a token is neither asked for nor judged',
  );
}

function inPieces(bytes: Uint8Array, size = 65_536): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
}

/** A body whose second half waits until it is told. */
function held(bytes: Uint8Array): {
  body: ReadableStream<Uint8Array>;
  finish: () => void;
  breakOff: () => void;
  started: Promise<void>;
} {
  const half = Math.floor(bytes.length / 2);
  let finish = () => {};
  let breakOff = () => {};
  const gate = new Promise<void>((resolve, reject) => {
    finish = resolve;
    breakOff = () => reject(new Error('broken off on purpose'));
  });
  let begun = () => {};
  const started = new Promise<void>((resolve) => {
    begun = resolve;
  });
  let pulls = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        pulls++;
        if (pulls === 1) return controller.enqueue(bytes.slice(0, half));
        begun();
        await gate;
        controller.enqueue(bytes.slice(half));
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return { body, finish, breakOff, started };
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

async function overlapping({ client, target }: CheckContext): Promise<void> {
  const node = makeNodeOfCanonicalSize(Math.min(target.nodeBytesMax, 40_000));
  const upload = await client.instruction(node.hash);
  const slow = held(makeNodeOfCanonicalSize(40_000).bytes);
  const slowAnswer = client.put(upload, slow.body);
  await Promise.race([slow.started, slowAnswer]);
  await pause(50);
  expectStatus(await client.put(upload, node.bytes), 200, 'the first to complete wins');
  slow.finish();
  expectStatus(await slowAnswer, 412, 'the PUT that completes second');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state: the winner’s bytes count');
  const answer = await client.readContent(node.hash);
  expectBytes(answer.bytes, node.content, 'content', answer);
}

async function manyOverlapping({ client }: CheckContext): Promise<void> {
  const node = makeNodeOfCanonicalSize(60_000);
  const upload = await client.instruction(node.hash);
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => client.put(upload, inPieces(node.bytes, 8_192))),
  );
  const statuses = answers.map((answer) => answer.status).sort();
  expectEqual(statuses, [200, 412, 412, 412, 412, 412], 'statuses of six overlapping PUTs');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

async function leaseDuringPut({ client }: CheckContext): Promise<void> {
  const node = makeNodeOfCanonicalSize(40_000);
  const upload = await client.instruction(node.hash);
  const slow = held(node.bytes);
  const slowAnswer = client.put(upload, slow.body);
  await Promise.race([slow.started, slowAnswer]);
  await pause(50);
  const during = await client.leased(node.hash);
  expectThat(during.state === 'awaiting_upload', 'state while the PUT is being received', during.state);
  slow.finish();
  expectStatus(await slowAnswer, 200, 'a generation being received is not replaced');
  expectStatus(
    await client.put(during.upload, node.bytes),
    412,
    'the URL given meanwhile is of the same generation',
  );
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state after the PUT');
}

async function interrupted({ client }: CheckContext): Promise<void> {
  const node = makeNodeOfCanonicalSize(40_000);
  const upload = await client.instruction(node.hash);
  const broken = held(node.bytes);
  const abort = new AbortController();
  const attempt = client.put(upload, broken.body, {}, abort.signal).catch(() => undefined);
  await Promise.race([broken.started, attempt]);
  await pause(50);
  broken.breakOff();
  abort.abort();
  await attempt;
  await pause(50);
  expectEqual((await client.leased(node.hash)).state, 'awaiting_upload', 'state after an interrupted PUT');
  expectStatus(await client.put(upload, node.bytes), 200, 'the same URL after an interrupted PUT');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
  expectEqual((await client.usage()).reservedBytes, 0, 'reservedBytes');
}

async function expired({ client, elapse, target }: CheckContext): Promise<void> {
  const [node, finished] = [makeNode(), makeNode()];
  const upload = await client.instruction(node.hash);
  const done = await client.instruction(finished.hash);
  expectStatus(await client.put(done, finished.bytes), 200);
  await elapse(upload.expiresAt - target.now() + 1_500);
  expectError(await client.put(upload, node.bytes), 403, 'FORBIDDEN', 'an expired URL');
  expectError(await client.put(done, finished.bytes), 403, 'FORBIDDEN', 'expiry before finished');
  expectEqual(
    (await client.leased(finished.hash)).state,
    'ready',
    'state: a complete object is accepted whenever it finished',
  );
  const again = await client.leased(node.hash);
  expectThat(again.state === 'awaiting_upload', 'a new generation after expiry', again.state);
  expectThat(again.upload.expiresAt > target.now(), 'its expiresAt in the future', again.upload.expiresAt);
  expectStatus(await client.put(again.upload, node.bytes), 200);
}

/** Replays against direct upload targets may succeed, but never change what is read. */
async function directReplay({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  expectStatus(await client.put(upload, node.bytes), 200);
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
  const replay = await client.put(upload, makeNode().bytes);
  expectThat(
    replay.status >= 400,
    'the store refuses a second PUT to an existing object',
    replay.status,
    replay,
  );
  const answer = await client.readContent(node.hash);
  expectBytes(answer.bytes, node.content, 'content after a replayed PUT', answer);
}

export const uploadTargetChecks: readonly Check[] = [
  check(
    'upload.answer',
    `${TARGET} answers 200 with an empty body`,
    'a PUT as instructed',
    putAnswers,
    'embedded-upload',
  ),
  check('upload.once', ONCE, 'a finished URL alters nothing', secondPut, 'embedded-upload'),
  check(
    'upload.once-rejected',
    ONCE,
    'a rejected generation stays finished',
    putAfterRejection,
    'embedded-upload',
  ),
  check(
    'upload.over-limit',
    'contract 5: a body over the limit is cut off with 413, which finishes the generation',
    '413, then 412',
    overLimitFinishes,
    'embedded-upload',
    'node-limit',
  ),
  check(
    'upload.headers',
    `${TARGET}: missing if-none-match: * or another content type (403)`,
    'the returned headers exactly',
    wrongHeaders,
    'embedded-upload',
  ),
  check('upload.tampered', ORDER, 'a tampered URL is 403', tamperedUrl, 'embedded-upload'),
  check(
    'upload.methods',
    'contract 4: a method the path does not have → 404',
    'only PUT',
    otherMethods,
    'embedded-upload',
  ),
  check(
    'upload.no-bearer',
    `${TARGET}: no bearer token`,
    'tokens do not matter',
    noBearer,
    'embedded-upload',
  ),
  check(
    'upload.overlapping',
    'contract 5: of overlapping PUTs the first to complete wins, the others get 412',
    'the later start wins by finishing first',
    overlapping,
    'embedded-upload',
  ),
  check(
    'upload.overlapping-many',
    'contract 5: of overlapping PUTs the first to complete wins, the others get 412',
    'six at once',
    manyOverlapping,
    'embedded-upload',
  ),
  check(
    'upload.lease-meanwhile',
    'contract 5: a generation whose PUT is still being received is not replaced',
    'a lease during the PUT',
    leaseDuringPut,
    'embedded-upload',
  ),
  check(
    'upload.interrupted',
    'contract 5: an interrupted PUT leaves nothing, and the same URL can be used again',
    'a body that breaks off',
    interrupted,
    'embedded-upload',
  ),
  check(
    'upload.expired',
    'contract 5: expiry is judged when the PUT’s headers arrive; expired without an object: a new generation',
    'an expired URL is 403',
    expired,
    'embedded-upload',
    'upload-expiry',
  ),
  check(
    'upload.direct-replay',
    'contract 5: a replay is never read or published',
    'a store that takes the PUT itself',
    directReplay,
    'direct-upload',
  ),
];
