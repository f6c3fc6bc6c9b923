/**
 * `holdfast gateway cache` with limits: it removes the entries that were used least lately, and outputs after the entries that
 * name them.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { actionResult, digest, sha256 } from './support/action-results.ts';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const BYTES = 100_000;
/** Three values, and entries that name them. */
const LIMIT = 3 * BYTES + 1_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-cache-eviction');
});
afterAll(() => commands.remove());

const put = async (door: GatewayProcess, key: string, body: string | Uint8Array<ArrayBuffer>) =>
  (await fetch(`${door.url}${key}`, { method: 'PUT', headers: door.headers, body })).status;
const get = async (door: GatewayProcess, key: string): Promise<number> => {
  const answer = await fetch(`${door.url}${key}`, { headers: door.headers });
  await answer.bytes();
  return answer.status;
};
const sizeOf = async (space: string): Promise<number> => {
  const [snapshot] = JSON.parse(await commands.runWell(space, 'snapshots', 'cache', '--json'));
  return snapshot.bytes;
};
const value = (fill: number) => new Uint8Array(BYTES).fill(fill);

test('above the size, what was used least lately goes, also after a restart', async () => {
  const first = await startGateway(commands.environment('size'), 'cache');
  for (const [index, key] of ['k0', 'k1', 'k2', 'k3'].entries()) await put(first, key, value(index));
  expect(await get(first, 'k0')).toBe(200);
  expect(await endGateway(first)).toBe(0);
  const door = await startGateway(commands.environment('size'), 'cache', '--max-size', `${3 * BYTES}`);
  await until(async () => (await sizeOf('size')) <= 3 * BYTES);
  expect(await put(door, 'k4', value(4))).toBe(201);
  await until(async () => (await sizeOf('size')) <= 3 * BYTES);
  const found: number[] = [];
  for (const key of ['k0', 'k1', 'k2', 'k3', 'k4']) found.push(await get(door, key));
  expect(found).toEqual([200, 404, 404, 200, 200]);
  expect(await put(door, 'huge', new Uint8Array(3 * BYTES + 1))).toBe(413);
  expect(await endGateway(door)).toBe(0);
});

test('an output goes only with the last entry that names it', async () => {
  const door = await startGateway(commands.environment('outputs'), 'cache', '--max-size', `${LIMIT}`);
  const shared = value(1);
  const [old, young] = ['old', 'young'].map((name) => `ac/${sha256(name)}`) as [string, string];
  const output = `cas/${sha256(shared)}`;
  await put(door, output, shared);
  const entry = actionResult([]);
  const naming = actionResult([], [6, digest(shared)]);
  await put(door, old, naming);
  await put(door, 'other', value(2));
  await put(door, young, Buffer.concat([naming, entry]));
  // Two more than there is room for: the oldest entry and the other value go first, the output is of the young one.
  await put(door, 'more', value(3));
  await put(door, 'most', value(4));
  await until(async () => (await sizeOf('outputs')) <= LIMIT);
  expect([await get(door, old), await get(door, 'other')]).toEqual([404, 404]);
  expect([await get(door, young), await get(door, output)]).toEqual([200, 200]);
  // Without another use of the entry, all of it goes.
  for (const key of ['a', 'b', 'c']) await put(door, key, value(5));
  await until(async () => (await sizeOf('outputs')) <= LIMIT);
  expect([await get(door, young), await get(door, output), await get(door, 'c')]).toEqual([404, 404, 200]);
  expect(await endGateway(door)).toBe(0);
});

test('an output that was there before an entry waits with it for the rest', async () => {
  const door = await startGateway(commands.environment('later'), 'cache', '--max-size', `${LIMIT}`);
  const entry = `ac/${sha256('later')}`;
  await put(door, `cas/${sha256(value(1))}`, value(1));
  await put(door, 'other', value(2));
  await put(door, entry, actionResult(['late'], [6, digest(value(1))]));
  await put(door, `cas/${sha256('late')}`, 'late');
  for (const key of ['more', 'most']) await put(door, key, value(3));
  await until(async () => (await sizeOf('later')) <= LIMIT);
  expect([await get(door, entry), await get(door, 'other')]).toEqual([200, 404]);
  expect(await endGateway(door)).toBe(0);
});

test('what was not used for so long goes', async () => {
  const door = await startGateway(commands.environment('age'), 'cache', '--max-age', '2s');
  await put(door, 'old', value(1));
  await until(async () => (await sizeOf('age')) === 0);
  expect(await get(door, 'old')).toBe(404);
  expect(await endGateway(door)).toBe(0);
});
