/** The answer of readMetadata is remembered with its row, and only as long as that is the row. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { NodeDescription } from '@holdfast/protocol';
import { type HandlerWorld, leaseRequest, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

const space = { appId: 'app', spaceId: 'space' };
let world: HandlerWorld;

beforeAll(async () => {
  world = await openHandlerWorld();
});

afterAll(() => world.close());

async function readMetadata(hash: string): Promise<NodeDescription> {
  const answer = await world.handler().handle(new Request(`${SPACE_URL}/cas/nodes/${hash}/metadata`));
  return JSON.parse(await answer.text());
}

test('what a renewal changed is in the next answer', async () => {
  const hash = await world.store('a node that changes', 'text/plain');
  const first = await readMetadata(hash);
  expect(await readMetadata(hash)).toEqual(first);
  await Bun.sleep(2);
  expect((await world.handler().handle(leaseRequest(hash))).status).toBe(200);
  const renewed = await readMetadata(hash);
  expect(renewed.metadata).toEqual(first.metadata);
  expect(renewed.state.leaseExpiresAt).toBeGreaterThan(first.state.leaseExpiresAt);
  const node = await world.core.metadata.findNode(space, hash);
  expect(renewed.state.leaseExpiresAt).toBe(node?.leaseExpiresAt as number);
});
