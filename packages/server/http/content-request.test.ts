/** Content served from memory: no copy is made, and unread bytes are bounded. */

import { afterEach, beforeEach, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import type { Handler } from './handler.ts';
import { COPYING_PIECES_MAX, LARGE_ANSWER_BYTES_MAX } from './http-limits.ts';
import type { Connections } from './peer.ts';
import { makeTenantShares, type TenantShares } from './tenant-shares.ts';
import { type HandlerWorld, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

let world: HandlerWorld;
let shares: TenantShares;
let handler: Handler;
/** Answers stay unread while it is true. */
let areOpen = false;
const connections: Connections = {
  timeout: () => undefined,
  requestIP: () => (areOpen ? { address: '192.0.2.1' } : null),
};

beforeEach(async () => {
  areOpen = false;
  world = await openHandlerWorld();
  shares = makeTenantShares();
  handler = world.handler({ shares });
});
afterEach(() => world.close());

function ask(hash: string, range = 'bytes=0-', method = 'GET'): Promise<Response> {
  const request = new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, { method, headers: { range } });
  return Promise.resolve(handler.handle(request, connections));
}

const copiedBytes = (): number => world.options.copies.heldBytes;

test('many answers at once have the bytes of their own content, and no copy is made', async () => {
  const contents = [MIB_BYTES, CONTENT_PIECE_BYTES, 300_000, 600_007].map((bytes, seed) =>
    seededBytes(bytes, seed),
  );
  const hashes = await Promise.all(contents.map((content) => world.store(content)));
  const asked = Array.from({ length: 3 * COPYING_PIECES_MAX }, (_, at) => at % contents.length);
  const answers: Response[] = [];
  // Some at a time: more than have room in memory would be copied.
  for (let at = 0; at < asked.length; at += 16) {
    answers.push(
      ...(await Promise.all(asked.slice(at, at + 16).map((which) => ask(hashes[which]!, 'bytes=5-')))),
    );
  }
  expect(copiedBytes()).toBe(0);
  for (const [at, answer] of answers.entries()) {
    const content = contents[asked[at]!]!.subarray(5);
    expect(answer.headers.get('content-length')).toBe(String(content.length));
    expect(Buffer.compare(await answer.bytes(), content)).toBe(0);
  }
});

test('content of more than a piece is copied, and a part of it is not', async () => {
  const hash = await world.store(seededBytes(CONTENT_PIECE_BYTES + 1, 1));
  expect((await ask(hash, 'bytes=1-')).status).toBe(206);
  expect(copiedBytes()).toBe(0);
  expect((await ask(hash)).status).toBe(206);
  expect(copiedBytes()).toBeGreaterThan(CONTENT_PIECE_BYTES);
});

test('answers that nobody takes hold no more memory than there is for them; then copies are made', async () => {
  const content = seededBytes(MIB_BYTES, 1);
  const hash = await world.store(content);
  areOpen = true;
  let inMemory = 0;
  for (; copiedBytes() === 0; inMemory += 1) {
    expect(inMemory * MIB_BYTES).toBeLessThanOrEqual(LARGE_ANSWER_BYTES_MAX);
    expect((await ask(hash)).status).toBe(206);
  }
  // Those beyond are answered all the same, and small answers have memory of their own.
  expect(Buffer.compare(await (await ask(hash)).bytes(), content)).toBe(0);
  expect((await ask(hash, 'bytes=0-99999')).status).toBe(206);
  expect(inMemory).toBeGreaterThan(8);
  expect(shares.largeAnswers.used).toBe((inMemory - 1) * MIB_BYTES);
  areOpen = false;
  await ask(hash);
  expect(shares.largeAnswers.used).toBeLessThanOrEqual(MIB_BYTES);
});

test('HEAD holds nothing', async () => {
  const hash = await world.store(seededBytes(MIB_BYTES, 1));
  areOpen = true;
  const answer = await ask(hash, 'bytes=0-', 'HEAD');
  expect(answer.headers.get('content-length')).toBe(String(MIB_BYTES));
  expect([shares.largeAnswers.used, copiedBytes()]).toEqual([0, 0]);
});

test('reads that fail give back what they held', async () => {
  const hash = await world.store(seededBytes(MIB_BYTES, 1));
  const other = await world.store(seededBytes(MIB_BYTES, 2));
  await world.damage(hash, 1000);
  areOpen = true;
  // Once it is known that the node is rotten nothing is read: these ask before.
  const asked = Array.from({ length: COPYING_PIECES_MAX + 1 }, () => ask(hash));
  for (const answer of await Promise.all(asked)) expect(answer.status).toBe(503);
  expect(shares.largeAnswers.used).toBe(0);
  expect((await ask(other)).status).toBe(206);
});

test('a caller that has gone is answered nothing, and holds nothing', async () => {
  const hash = await world.store(seededBytes(MIB_BYTES, 1));
  const gone = new AbortController();
  gone.abort();
  const request = new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, { signal: gone.signal });
  areOpen = true;
  await handler.handle(request, connections);
  expect(world.failures.at(-1)?.kind).toBe('caller-gone');
  expect(shares.largeAnswers.used).toBe(0);
});
