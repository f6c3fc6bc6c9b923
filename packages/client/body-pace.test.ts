/** Bodies that are taken whole: only when they are expected at once, and given up as soon as pieces would be. */

import { afterAll, describe, expect, test } from 'bun:test';
import { createServer, type Server, type Socket } from 'node:net';
import { MIB_BYTES } from '@holdfast/protocol';
import { BodyPace } from './body-pace.ts';
import type { Client } from './client.ts';
import type { ContentMemory, NodeContent } from './content.ts';
import { systemClock } from './deadline.ts';
import { FAR_TIMEOUTS } from './test/fake-clock-fixture.ts';
import { expectCasError, FakeSpace, readAll } from './test/fake-space-fixture.ts';

const HASH = 'a'.repeat(64);
const IDLE_MS = 30_000;

describe('the pace', () => {
  test('is unknown until a body of some size came, and after one that did not come whole', () => {
    const pace = new BodyPace();
    expect(pace.comesAtOnce(1, IDLE_MS)).toBe(false);
    pace.note(1_000, 1);
    expect(pace.comesAtOnce(1, IDLE_MS)).toBe(false);
    pace.note(MIB_BYTES, 5);
    expect(pace.comesAtOnce(MIB_BYTES, IDLE_MS)).toBe(true);
    pace.noteMissed();
    expect(pace.comesAtOnce(1, IDLE_MS)).toBe(false);
  });

  test('lets a body in whole that is expected in a tenth of the silence allowed, up to 8 MiB', () => {
    const pace = new BodyPace();
    pace.note(100_000, 100);
    expect(pace.comesAtOnce(1_000 * 0.1 * IDLE_MS, IDLE_MS)).toBe(true);
    expect(pace.comesAtOnce(1_000 * 0.1 * IDLE_MS + 1, IDLE_MS)).toBe(false);
    pace.note(1_000 * MIB_BYTES, 1);
    expect(pace.comesAtOnce(8 * MIB_BYTES, IDLE_MS)).toBe(true);
    expect(pace.comesAtOnce(8 * MIB_BYTES + 1, IDLE_MS)).toBe(false);
  });

  test('follows a line that becomes slower within a few bodies', () => {
    const pace = new BodyPace();
    pace.note(MIB_BYTES, 1);
    let bodies = 0;
    for (; pace.comesAtOnce(MIB_BYTES, IDLE_MS) && bodies < 100; bodies += 1) pace.note(MIB_BYTES, 60_000);
    expect(bodies).toBeLessThan(40);
  });
});

/** Counts how each body is read. */
class Reads {
  whole = 0;
  pieces = 0;

  watch(response: Response): Response {
    const arrayBuffer = response.arrayBuffer.bind(response);
    response.arrayBuffer = () => {
      this.whole += 1;
      return arrayBuffer();
    };
    const { body } = response;
    Object.defineProperty(response, 'body', {
      get: () => {
        this.pieces += 1;
        return body;
      },
    });
    return response;
  }
}

const bytesOf = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, index) => (index * 31) % 251);

describe('content', () => {
  const headers = (length: number) => ({ 'content-type': 'x/y', 'content-length': String(length) });

  async function readTwice(bytes: Uint8Array<ArrayBuffer>, answer: () => Response) {
    const space = new FakeSpace();
    const reads = new Reads();
    const client = space.client();
    const given: number[] = [];
    const memory: ContentMemory = {
      take: (length) => new Uint8Array(length),
      give: (piece) => given.push(piece.length),
    };
    for (let round = 0; round < 2; round += 1) {
      space.plant('content', () => reads.watch(answer()));
      const content = await client.readContent(HASH);
      expect(Buffer.compare(await content.bytes(memory), bytes)).toBe(0);
    }
    return { reads, givenBytes: given.reduce((sum, length) => sum + length, 0) };
  }

  test.each([65_536, MIB_BYTES])('of %d bytes: the first comes in pieces, the next whole', async (length) => {
    const bytes = bytesOf(length);
    const { reads, givenBytes } = await readTwice(
      bytes,
      () => new Response(bytes, { headers: headers(length) }),
    );
    expect(reads).toMatchObject({ whole: 1 });
    expect(givenBytes).toBe(length);
  });

  test.each([1, 1_000])('of %d bytes says nothing of the line', async (length) => {
    const bytes = bytesOf(length);
    const { reads } = await readTwice(bytes, () => new Response(bytes, { headers: headers(length) }));
    expect(reads.whole).toBe(0);
  });

  test.each([0, 1_000])('of %d bytes is read once: by its body or by its bytes', async (length) => {
    const bytes = bytesOf(length);
    const space = new FakeSpace();
    const answer = () => new Response(bytes, { headers: headers(length) });
    space.plant('content', answer, answer, answer);
    const client = space.client();
    const first = await client.readContent(HASH);
    const reading = first.body.getReader().read();
    await expect(first.bytes()).rejects.toThrow(TypeError);
    expect((await reading).value?.length ?? 0).toBe(length);
    const second = await client.readContent(HASH);
    const whole = second.bytes();
    await expect(second.bytes()).rejects.toThrow(TypeError);
    await expect(readAll(second.body)).rejects.toThrow(TypeError);
    expect((await whole).length).toBe(length);
    const third = await client.readContent(HASH);
    await third.bytes();
    await expect(readAll(third.body)).rejects.toThrow(TypeError);
  });

  test('whose length the header does not say is never taken whole: it could have any', async () => {
    const bytes = bytesOf(MIB_BYTES);
    const space = new FakeSpace();
    const reads = new Reads();
    const client = space.client();
    const range = { first: 0, last: bytes.length - 1 };
    for (let round = 0; round < 3; round += 1) {
      const contentRange = `bytes 0-${bytes.length - 1}/${2 * bytes.length}`;
      const fields = { 'content-type': 'x/y', 'content-range': contentRange };
      space.plant('content', () => reads.watch(new Response(bytes, { status: 206, headers: fields })));
      const content = await client.readContent(HASH, { range });
      expect(Buffer.compare(await content.bytes(), bytes)).toBe(0);
    }
    expect(reads.whole).toBe(0);
  });
});

describe('from a server that stops in the midst', () => {
  /** How many bytes of the body are sent; then the connection ends, or stays silent. */
  let sentBytes = 0;
  let isSilent = false;
  const length = 200_000;
  const body = bytesOf(length);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', () => {
      const head = `HTTP/1.1 200 OK\r\ncontent-type: x/y\r\ncontent-length: ${length}\r\n\r\n`;
      socket.write(Buffer.concat([Buffer.from(head), body.subarray(0, sentBytes)]), () => {
        if (sentBytes < length && !isSilent) socket.end();
      });
    });
  });
  const listening = listen(server);
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  async function open(contentIdleMs: number): Promise<{ client: Client; reads: Reads }> {
    const port = await listening;
    const reads = new Reads();
    const client = new FakeSpace().client({
      baseUrl: `http://127.0.0.1:${port}`,
      clock: systemClock,
      timeouts: { ...FAR_TIMEOUTS, contentIdleMs },
      retry: { attemptsMax: 1 },
      fetch: async (url, init) => reads.watch(await fetch(url, init)),
    });
    return { client, reads };
  }

  async function serve(client: Client, bytes: number): Promise<NodeContent> {
    sentBytes = bytes;
    return client.readContent(HASH);
  }

  test('a body that is cut off is a broken connection, whole or in pieces', async () => {
    isSilent = false;
    const { client, reads } = await open(20_000);
    await expectCasError((await serve(client, 100_000)).bytes(), 'CONNECTION_FAILED');
    expect((await (await serve(client, length)).bytes()).length).toBe(length);
    await expectCasError((await serve(client, 100_000)).bytes(), 'CONNECTION_FAILED');
    expect(reads.whole).toBe(1);
    expect(Buffer.compare(await readAll((await serve(client, length)).body), body)).toBe(0);
  });

  test('a body that stays out is given up after the silence allowed, and the next comes in pieces', async () => {
    isSilent = true;
    const { client, reads } = await open(200);
    expect((await (await serve(client, length)).bytes()).length).toBe(length);
    await expectCasError((await serve(client, 100_000)).bytes(), 'TIMED_OUT');
    expect(reads.whole).toBe(1);
    expect((await (await serve(client, length)).bytes()).length).toBe(length);
    expect(reads.whole).toBe(1);
    expect((await (await serve(client, length)).bytes()).length).toBe(length);
    expect(reads.whole).toBe(2);
  });
});

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
}
