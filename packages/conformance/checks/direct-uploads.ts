/** Uploads that a store takes itself, by a presigned URL: what the URL allows, and that replays never count. */
import type { Answer } from '../answer.ts';
import { expectEqual, expectNotFound, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import { openRaw } from '../raw-connection.ts';
import { NO_USAGE } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import type { Need } from '../target.ts';
import type { Upload } from '../wire.ts';
import { putHead, statusSeen } from './raw-uploads.ts';
import { replayedPuts } from './replayed-puts.ts';
import { pause } from './upload-overlaps.ts';

const TARGET = 'The upload target: PUT with the returned headers exactly; no bearer token';
const ONCE = 'The upload target: a URL that is still valid can never alter or resurrect content';
const REFUSALS = 'The upload target: 409 and 412 both say that the object is already there';
/** Past the last whole second that a signature counts in. */
const EXPIRY_MARGIN_MS = 1_500;

function expectRefused(answer: Answer, what: string): void {
  expectStatus(answer, [400, 401, 403], what);
}

const PAUSED_BYTES = 40_000;
const SENT_FIRST_BYTES = 20_000;

function keyOf(upload: Upload): string {
  return new URL(upload.url).pathname;
}

/** By the store's clock, whatever the server's says. */
async function outlive(upload: Upload): Promise<void> {
  await pause(Math.max(0, upload.expiresAt - Date.now()) + EXPIRY_MARGIN_MS);
}

function direct(
  id: string,
  clause: string,
  title: string,
  ...rest: readonly [...needs: Need[], run: Check['run']]
): Check {
  return check(`upload.direct-${id}`, clause, title, 'direct-upload', ...rest);
}

export const directUploadChecks: readonly Check[] = [
  direct('instruction', TARGET, 'what the signature covers, and no token', async ({ client }) => {
    const { url, headers } = await client.instruction(makeNode().hash);
    const names = Object.keys(headers).map((name) => name.toLowerCase());
    expectThat(!names.includes('authorization'), 'no bearer token in upload.headers', names);
    expectThat(!/eyJ[\w-]{5,}\./.test(url), 'no capability in the URL', '(one)');
    const signed = new URL(url).searchParams.get('X-Amz-SignedHeaders')?.split(';') ?? [];
    for (const name of ['content-type', 'if-none-match', 'host']) {
      expectThat(signed.includes(name), `the signature covers ${name}`, signed);
    }
  }),
  direct('replay', ONCE, 'a second PUT is refused and changes nothing', replayedPuts),
  direct('headers', TARGET, 'other headers than the returned ones', async ({ client }) => {
    const { node, upload } = await client.startUpload();
    const wrongs: readonly Record<string, string | undefined>[] = [
      { 'if-none-match': undefined },
      { 'if-none-match': '"etag"' },
      { 'content-type': undefined },
      { 'content-type': 'application/octet-stream' },
      { 'content-type': 'application/vnd.holdfast.cas-node.v2' },
    ];
    for (const headers of wrongs) {
      const answer = await client.put(upload, node.bytes, headers);
      expectRefused(answer, `a PUT with the headers ${JSON.stringify(headers)}`);
    }
    await client.expectLease(node.hash, 'awaiting_upload', 'state after refused PUTs');
    expectStatus(await client.put(upload, node.bytes), 200, 'refused PUTs leave the URL good');
    for (const headers of wrongs) await client.put(upload, makeNode().bytes, headers);
    await client.expectLease(node.hash, 'ready');
  }),
  direct('tampered', TARGET, 'a URL that was changed', async ({ client }) => {
    const [node, other] = [makeNode(), makeNode()];
    const upload = await client.instruction(node.hash);
    const foreign = new URL((await client.instruction(other.hash)).url);
    const refused = async (change: (url: URL) => void, what: string): Promise<void> => {
      const url = new URL(upload.url);
      change(url);
      expectRefused(await client.put({ ...upload, url: url.href }, node.bytes), what);
    };
    const set = (name: string, value: (before: string) => string) => (url: URL) =>
      url.searchParams.set(name, value(url.searchParams.get(name) ?? ''));
    const flip = (text: string) => `${text.startsWith('0') ? '1' : '0'}${text.slice(1)}`;
    await refused(set('X-Amz-Signature', flip), 'another signature');
    await refused((url) => url.searchParams.delete('X-Amz-Signature'), 'no signature');
    await refused(
      set('X-Amz-Expires', (seconds) => String(Number(seconds) + 3600)),
      'a longer life',
    );
    await refused(
      set('X-Amz-SignedHeaders', () => 'host'),
      'fewer signed headers',
    );
    await refused((url) => {
      url.pathname = foreign.pathname;
    }, 'the key of another generation');
    await refused((url) => {
      url.pathname = `${url.pathname}0`;
    }, 'a key of its own choice');
    expectStatus(await client.put(upload, node.bytes), 200, 'the URL as it was given');
    await client.expectLease(node.hash, 'ready');
    await client.expectLease(other.hash, 'awaiting_upload', 'state of the other');
  }),
  direct('methods', TARGET, 'only PUT', async ({ client, target }) => {
    const { node, upload } = await client.startUpload();
    expectStatus(await client.put(upload, node.bytes), 200);
    for (const method of ['GET', 'DELETE', 'POST']) {
      const answer = await target.send(upload.url, { method, headers: { ...upload.headers } });
      expectThat(answer.status >= 400, `${method} with the URL of a PUT is refused`, answer.status, answer);
    }
    await client.expectLease(node.hash, 'ready');
  }),
  /** Such stores ask for the length beforehand, which a stream of fetch does not tell: so over a bare socket. */
  direct('overlapping', REFUSALS, 'the later start wins by finishing first', 'socket', async ({ client }) => {
    const node = makeNodeOfCanonicalSize(PAUSED_BYTES);
    const late = makeNodeOfCanonicalSize(PAUSED_BYTES);
    const upload = await client.instruction(node.hash);
    const slow = await openRaw(upload.url);
    try {
      slow.write(putHead(upload, [`content-length: ${PAUSED_BYTES}`]));
      slow.write(late.bytes.slice(0, SENT_FIRST_BYTES));
      await pause(100);
      expectStatus(await client.put(upload, node.bytes), 200, 'the first to complete wins');
      slow.write(late.bytes.slice(SENT_FIRST_BYTES));
      const received = await slow.read(10_000, statusSeen);
      const refusal = /^HTTP\/1\.1 (?:409|412)/m.test(received);
      expectThat(refusal, 'the PUT that completes second: 409 or 412', received.slice(0, 60));
    } finally {
      slow.destroy();
    }
    await client.expectLease(node.hash, 'ready', 'state: the winner’s bytes count');
    await client.expectContent(node);
  }),
  direct(
    'interrupted',
    'The upload target: an interrupted PUT leaves nothing, and the same URL can be used again',
    'a body that breaks off',
    'socket',
    async ({ client }) => {
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(PAUSED_BYTES));
      const broken = await openRaw(upload.url);
      broken.write(putHead(upload, [`content-length: ${PAUSED_BYTES}`]));
      broken.write(node.bytes.slice(0, SENT_FIRST_BYTES));
      await pause(100);
      broken.destroy();
      await pause(100);
      await client.expectLease(node.hash, 'awaiting_upload', 'state after an interrupted PUT');
      expectStatus(await client.put(upload, node.bytes), 200, 'the same URL after an interrupted PUT');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  /** The object may be gone by then, so the store may take a replay; it must count for nothing. */
  direct(
    'once-rejected',
    'The upload target: a replay is never read or published',
    'good bytes under a rejected key',
    async ({ client }) => {
      const { node, upload } = await client.startUpload();
      expectStatus(await client.put(upload, makeNode().bytes), 200, 'wrong bytes are accepted by the PUT');
      const lease = await client.expectRejected(node.hash);
      expectThat(keyOf(lease.upload) !== keyOf(upload), 'a replacement has a key of its own', 'the same key');
      await client.put(upload, node.bytes);
      await client.expectRejected(node.hash, 'state: good bytes under the rejected key');
      expectNotFound(await client.call('readMetadata', { hash: node.hash }), 'not published');
      await client.expectUsage(NO_USAGE, 'after a replay');
      expectStatus(await client.put(lease.upload, node.bytes), 200, 'the replacement');
      await client.expectLease(node.hash, 'ready');
      await client.expectContent(node);
    },
  ),
  direct(
    'expired',
    'leaseNode: expired without an object: a new generation; a complete object is accepted whenever it finished',
    'a URL that ran out',
    'store-expiry',
    async ({ client }) => {
      const [node, finished] = [makeNode(), makeNode()];
      const done = await client.instruction(finished.hash);
      const upload = await client.instruction(node.hash);
      expectStatus(await client.put(done, finished.bytes), 200);
      await outlive(upload);
      expectRefused(await client.put(upload, node.bytes), 'an expired URL');
      await client.expectLease(
        finished.hash,
        'ready',
        'state: a complete object is accepted whenever it finished',
      );
      const again = await client.expectLease(
        node.hash,
        'awaiting_upload',
        'a lease that asks for bytes again',
      );
      expectThat(
        keyOf(again.upload) !== keyOf(upload),
        'expired without an object: a new generation',
        'the old',
      );
      expectStatus(await client.put(again.upload, node.bytes), 200);
      await client.expectLease(node.hash, 'ready');
    },
  ),
  direct(
    'rejection-outlives-url',
    'leaseNode: expired without an object: a new generation; the rejection survives',
    'the reason after the URL has expired',
    'store-expiry',
    async ({ client }) => {
      const node = makeNode();
      expectStatus(await client.put(await client.instruction(node.hash), makeNode().bytes), 200);
      const first = await client.expectRejected(node.hash);
      await outlive(first.upload);
      const later = await client.expectRejected(node.hash, 'the rejection survives the URL');
      expectEqual(later.rejection, first.rejection, 'rejection');
      expectStatus(await client.put(later.upload, node.bytes), 200, 'the new URL');
      await client.expectLease(node.hash, 'ready');
    },
  ),
];
