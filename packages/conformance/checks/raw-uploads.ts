/** Uploads over a bare socket: pauses, broken connections, the Host. */
import { expectEqual, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import { openRaw } from '../raw-connection.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import type { Upload } from '../wire.ts';
import { answersOf, host } from './raw-protocol.ts';

const CLOSE = 'connection: close';

export function putHead(upload: Upload, framing: readonly string[]): string {
  const url = new URL(upload.url);
  const headers = Object.entries(upload.headers).map(([name, value]) => `${name}: ${value}`);
  return `PUT ${url.pathname}${url.search} HTTP/1.1\r\n${[`host: ${url.host}`, ...headers, ...framing].join('\r\n')}\r\n\r\n`;
}

export const statusSeen = (received: string) => /^HTTP\/1\.1 [2-5]\d\d/m.test(received);

const LOOKS_MAX = 200;

/** The server learns of bytes and broken connections a moment later than we send them. */
export async function expectReserved({ client }: CheckContext, bytes: number, when: string): Promise<void> {
  for (let looks = 0; looks < LOOKS_MAX && (await client.usage()).reservedBytes !== bytes; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expectEqual((await client.usage()).reservedBytes, bytes, `reservedBytes ${when}`);
}

export const rawUploadChecks: readonly Check[] = [
  check(
    'raw.reserved',
    'getUsage: reservedBytes: the declared length of an upload being received, only while it is',
    'a PUT that pauses',
    'socket',
    'embedded-upload',
    async (context) => {
      const { client } = context;
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(50_000));
      const connection = await openRaw(upload.url);
      try {
        connection.write(putHead(upload, ['content-length: 50000']));
        connection.write(node.bytes.slice(0, 30_000));
        await expectReserved(context, 50_000, 'while the upload is received');
        connection.write(node.bytes.slice(30_000));
        expectThat(
          /^HTTP\/1\.1 200/.test(await connection.read(10_000, statusSeen)),
          'the upload is answered 200',
          'another answer',
        );
        await expectReserved(context, 0, 'between PUT and lease');
      } finally {
        connection.destroy();
      }
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'raw.broken-put',
    'The upload target: an interrupted PUT leaves nothing, and the same URL can be used again',
    'connections that break off',
    'socket',
    'embedded-upload',
    async (context) => {
      const { client } = context;
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(50_000));
      for (const framing of ['content-length: 50000', 'transfer-encoding: chunked']) {
        const connection = await openRaw(upload.url);
        connection.write(putHead(upload, [framing]));
        connection.write(framing.startsWith('c') ? node.bytes.slice(0, 30_000) : '5\r\nabcde\r\n');
        await connection.read(150);
        connection.destroy();
        await expectReserved(context, 0, 'after a connection that broke off');
        await client.expectLease(node.hash, 'awaiting_upload', 'state after a broken connection');
      }
      expectStatus(await client.put(upload, node.bytes), 200, 'the same URL after broken connections');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'raw.expect-continue',
    'The upload target',
    'Expect: 100-continue',
    'socket',
    'embedded-upload',
    async (context) => {
      const { client } = context;
      const { node, upload } = await client.startUpload();
      const connection = await openRaw(upload.url);
      try {
        connection.write(putHead(upload, [`content-length: ${node.bytes.length}`, 'expect: 100-continue']));
        await connection.read(1_000, (received) => received.includes('\r\n\r\n'));
        connection.write(node.bytes);
        const received = await connection.read(10_000, statusSeen);
        expectThat(
          /^HTTP\/1\.1 200/m.test(received),
          '200 after Expect: 100-continue',
          received.slice(0, 60),
        );
      } finally {
        connection.destroy();
      }
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'raw.upload-host',
    'The upload target: an upload URL takes http:// and the Host of the lease request',
    'without a public URL',
    'socket',
    'embedded-upload',
    'own-host',
    async (context) => {
      const { client } = context;
      const node = makeNode();
      const body = '{"leaseDurationMs":60000}';
      const path =
        new URL(context.target.baseUrl).pathname.replace(/\/$/, '') + client.path('leaseNode', node.hash);
      const lines = [
        `POST ${path} HTTP/1.1`,
        'host: store.example:8443',
        `authorization: Bearer ${client.token()}`,
        'content-type: application/json',
        `content-length: ${body.length}`,
        CLOSE,
      ];
      const [answer] = await answersOf(context, `${lines.join('\r\n')}\r\n\r\n${body}`);
      const { upload } = JSON.parse(answer?.body ?? '{}') as { upload?: Upload };
      expectThat(
        upload?.url.startsWith('http://store.example:8443/uploads/') === true,
        'http:// and the Host of the lease request',
        upload?.url ?? '(none)',
      );
      const here = new URL(upload.url);
      here.host = host(context);
      here.protocol = new URL(context.target.baseUrl).protocol;
      expectStatus(
        await client.put({ ...upload, url: here.href }, node.bytes),
        200,
        'the signature does not cover the host',
      );
      await client.expectLease(node.hash, 'ready');
    },
  ),
];
