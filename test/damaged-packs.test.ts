/** Damage inside packs of a real server: found, named, healed by v1 and by Bulk, and no other node is touched. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { objectPath } from './support/embedded-files.ts';
import { findPackOf } from './support/embedded-packs.ts';
import { recount } from './support/embedded-recount.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { until } from './support/until.ts';

let running: RunningServer;
let bulk: BulkClient;
let number = 0;
const makeNodes = (): CanonicalNode[] => Array.from({ length: 20 }, () => makeNode(`damaged ${++number}`));
const hashesOf = (nodes: readonly { readonly hash: string }[]): string[] => nodes.map(({ hash }) => hash);

beforeAll(async () => {
  running = await startFreshServer('damaged-packs');
  bulk = makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(SPACE));
}, 300_000);
afterAll(() => running.remove());

const header = (path: string): void => flip(path, 0);
const firstRecord = (path: string): void => flip(path, 8 + 44);
const tail = (path: string): void => truncateSync(path, readFileSync(path).length - 1);
const whole = (path: string): void => renameSync(path, `${path}.away`);

function flip(path: string, offset: number): void {
  const bytes = readFileSync(path);
  bytes[offset] = (bytes[offset] as number) ^ 1;
  writeFileSync(path, bytes);
}

test.each([
  ['the header', header, () => []],
  ['one record', firstRecord, (nodes: readonly CanonicalNode[]) => nodes.slice(0, 1)],
  ['the tail', tail, (nodes: readonly CanonicalNode[]) => nodes.slice(-1)],
  ['the whole object', whole, (nodes: readonly CanonicalNode[]) => nodes],
] as const)('damage of %s', async (_, spoil, findLost) => {
  const nodes = makeNodes();
  const beside = makeNodes();
  await bulk.send(nodes);
  await bulk.send(beside);
  const lost = findLost(nodes);
  spoil(objectPath(running.data, findPackOf(running.data, nodes[0]!.hash)));
  const left = nodes.filter((node) => !lost.includes(node));
  expect(hashesOf(await bulk.read([...hashesOf(nodes), ...hashesOf(beside)]))).toEqual(
    hashesOf([...left, ...beside]),
  );
  const client = running.client();
  for (const { hash } of lost.slice(0, 2)) {
    expect((await client.content(hash)).status).toBe(503);
    expect((await client.metadata(hash)).status).toBe(200);
  }
  for (const { hash } of lost) {
    const isNamed = (line: string): boolean => [hash, APP, SPACE].every((word) => line.includes(word));
    await until(() => running.server.log().split('\n').some(isNamed));
  }
  for (const { hash } of left) expect(running.server.log()).not.toContain(hash);
  const answer = await bulk.leases(hashesOf(nodes));
  expect(answer.json.results.filter(({ state }: { state: string }) => state === 'absent')).toHaveLength(
    lost.length,
  );
  const [first, ...others] = lost;
  if (first !== undefined) expect((await client.store(first)).json.state).toBe('ready');
  if (others.length > 0) await bulk.send(others);
  expect(hashesOf(await bulk.read(hashesOf(nodes)))).toEqual(hashesOf(nodes));
  expect(recount(running.data).problems).toEqual([]);
});
