/** Uploads that overlap, pause, break off or outlive their URL. */
import {
  expectEqual,
  expectError,
  expectForbidden,
  expectHeader,
  expectStatus,
  expectThat,
} from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import { expectReserved } from './raw-uploads.ts';
import { inPieces } from './upload-target.ts';

/** Between two ends of one connection, whatever else the machine does. */
const ARRIVAL_MS = 300;

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

export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

/** A server takes requests in turn: after these answers it has the head of the earlier request. */
async function arrival(client: SpaceClient): Promise<void> {
  for (let asked = 0; asked < 3; asked += 1) await client.usage();
  await pause(ARRIVAL_MS);
}

export const uploadOverlapChecks: readonly Check[] = [
  check(
    'upload.expires-meanwhile',
    'leaseNode: expiry is judged when the PUT’s headers arrive; a generation being received is not replaced',
    'a URL that expires during its PUT',
    'embedded-upload',
    'upload-expiry',
    async ({ client, elapse, target }) => {
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(40_000));
      const slow = held(node.bytes);
      const slowAnswer = client.put(upload, slow.body);
      await Promise.race([slow.started, slowAnswer]);
      await arrival(client);
      await elapse(upload.expiresAt - target.now() + 1_500);
      const during = await client.expectLease(
        node.hash,
        'awaiting_upload',
        'state while the PUT is being received',
      );
      slow.finish();
      expectStatus(await slowAnswer, 200, 'expiry is judged when the headers arrive');
      expectStatus(
        await client.put(during.upload, node.bytes),
        412,
        'the generation was not replaced meanwhile',
      );
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'upload.overlapping',
    'The upload target: of overlapping PUTs the first to complete wins, the others get 412',
    'the later start wins by finishing first',
    'embedded-upload',
    async ({ client, target }) => {
      const { node, upload } = await client.startUpload(
        makeNodeOfCanonicalSize(Math.min(target.nodeBytesMax, 40_000)),
      );
      const slow = held(makeNodeOfCanonicalSize(40_000).bytes);
      const slowAnswer = client.put(upload, slow.body);
      await Promise.race([slow.started, slowAnswer]);
      await arrival(client);
      expectStatus(await client.put(upload, node.bytes), 200, 'the first to complete wins');
      slow.finish();
      expectStatus(await slowAnswer, 412, 'the PUT that completes second');
      await client.expectLease(node.hash, 'ready', 'state: the winner’s bytes count');
      await client.expectContent(node);
    },
  ),
  check(
    'upload.overlapping-many',
    'The upload target: of overlapping PUTs the first to complete wins, the others get 412',
    'six at once',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(60_000));
      const answers = await Promise.all(
        Array.from({ length: 6 }, () => client.put(upload, inPieces(node.bytes, 8_192))),
      );
      const statuses = answers.map((answer) => answer.status).sort();
      expectEqual(statuses, [200, 412, 412, 412, 412, 412], 'statuses of six overlapping PUTs');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'upload.fifth',
    'The upload target: of one upload generation at most 4 PUTs are received at once (a fifth: 429)',
    'a fifth beside four that stall',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(40_000));
      const slow = Array.from({ length: 4 }, () => held(node.bytes));
      const slowAnswers = slow.map(({ body }) => client.put(upload, body));
      await Promise.all(slow.map(({ started }, index) => Promise.race([started, slowAnswers[index]])));
      await arrival(client);
      const fifth = await client.put(upload, node.bytes);
      expectError(fifth, 429, 'RESOURCE_EXHAUSTED', 'a fifth PUT');
      expectHeader(fifth, 'retry-after', '1');
      for (const { finish } of slow) finish();
      const statuses = (await Promise.all(slowAnswers)).map(({ status }) => status).sort();
      expectEqual(statuses, [200, 412, 412, 412], 'statuses of the four');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'upload.lease-meanwhile',
    'leaseNode: a generation whose PUT is still being received is not replaced',
    'a lease during the PUT',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(40_000));
      const slow = held(node.bytes);
      const slowAnswer = client.put(upload, slow.body);
      await Promise.race([slow.started, slowAnswer]);
      await arrival(client);
      const during = await client.expectLease(
        node.hash,
        'awaiting_upload',
        'state while the PUT is being received',
      );
      slow.finish();
      expectStatus(await slowAnswer, 200, 'a generation being received is not replaced');
      expectStatus(
        await client.put(during.upload, node.bytes),
        412,
        'the URL given meanwhile is of the same generation',
      );
      await client.expectLease(node.hash, 'ready', 'state after the PUT');
    },
  ),
  check(
    'upload.interrupted',
    'The upload target: an interrupted PUT leaves nothing, and the same URL can be used again',
    'a body that breaks off',
    'embedded-upload',
    async (context) => {
      const { client } = context;
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(40_000));
      const broken = held(node.bytes);
      const abort = new AbortController();
      const attempt = client.put(upload, broken.body, {}, abort.signal).catch(() => undefined);
      await Promise.race([broken.started, attempt]);
      await arrival(client);
      broken.breakOff();
      abort.abort();
      await attempt;
      await client.expectLease(node.hash, 'awaiting_upload', 'state after an interrupted PUT');
      expectStatus(await client.put(upload, node.bytes), 200, 'the same URL after an interrupted PUT');
      await client.expectLease(node.hash, 'ready');
      await expectReserved(context, 0, 'after an interrupted PUT');
    },
  ),
  check(
    'upload.expired',
    'leaseNode: expiry is judged when the PUT’s headers arrive; expired without an object: a new generation',
    'an expired URL is 403',
    'embedded-upload',
    'upload-expiry',
    async ({ client, elapse, target }) => {
      const [node, finished] = [makeNode(), makeNode()];
      const upload = await client.instruction(node.hash);
      const done = await client.instruction(finished.hash);
      expectStatus(await client.put(done, finished.bytes), 200);
      await elapse(upload.expiresAt - target.now() + 1_500);
      expectForbidden(await client.put(upload, node.bytes), 'an expired URL');
      expectForbidden(await client.put(done, finished.bytes), 'expiry before finished');
      await client.expectLease(
        finished.hash,
        'ready',
        'state: a complete object is accepted whenever it finished',
      );
      const again = await client.expectLease(node.hash, 'awaiting_upload', 'a new generation after expiry');
      expectThat(
        again.upload.expiresAt > target.now(),
        'its expiresAt in the future',
        again.upload.expiresAt,
      );
      expectStatus(await client.put(again.upload, node.bytes), 200);
    },
  ),
];
