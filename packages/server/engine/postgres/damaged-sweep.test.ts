/** The sweep beside a damaged page of a real PostgreSQL: it says what is damaged, and everything else that is due goes. */

import { afterAll, beforeAll, expect, test } from 'bun:test';
import { DAY_MS } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres-server.ts';
import { sweep } from '../../core/collect/sweep.ts';
import type { Core } from '../../core/core.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import type { Space } from '../../core/model.ts';
import type { DirectStore } from '../../core/test/direct-store.ts';
import { SPACE } from '../test/samples.ts';
import { damagePage } from './test/damaged-page-fixture.ts';
import { coreOf, makeContent, openInstance, type StoreInstance } from './test/postgres-fixture.ts';

const TEST_MS_MAX = 300_000;
/** Nodes between the two, on pages of their own. */
const BETWEEN = 120;
const OTHERS = 20;
const STEPS = 4;

let postgres: PostgresServer;
beforeAll(async () => {
  postgres = await startPostgres({ settings: { autovacuum: 'off' } });
}, TEST_MS_MAX);
afterAll(() => postgres.stop());

const lease = (core: Core, space: Space, { hash }: CanonicalNode) =>
  leaseNode(core, space, hash, 60_000, () => 'http://unused');

async function bring(core: Core, content: DirectStore, space: Space, node: CanonicalNode): Promise<void> {
  const answer = await lease(core, space, node);
  if (!('upload' in answer)) throw new Error(`expected an upload instruction, got ${answer.state}`);
  expect(content.put(answer.upload.url, node.bytes)).toBe(200);
  await lease(core, space, node);
}

/** Its child never comes. */
const makeWaiting = (name: string): CanonicalNode =>
  makeNode(name, { refs: [makeNode(`child of ${name}`).hash] });

test(
  'a page with a row that is due holds up the sweep of no other Space, and is named',
  async () => {
    const url = await postgres.createDatabase();
    const clock = { at: 1_000_000_000_000, now: () => clock.at };
    const content = makeContent(clock.now);
    const others = Array.from({ length: OTHERS }, (_, index) => ({ ...SPACE, spaceId: `other ${index}` }));
    const waiting = makeWaiting('waiting');
    const prepared = await openInstance(url, { clock });
    const core = coreOf(prepared, content);
    await bring(core, content, SPACE, waiting);
    for (let seed = 0; seed < BETWEEN; seed += 1) await bring(core, content, SPACE, makeNode(`node ${seed}`));
    for (const other of others) await bring(core, content, other, waiting);
    await prepared.close();

    const { hashes, mend } = await damagePage(postgres, url, 'nodes', 0);
    expect(hashes).toContain(waiting.hash);
    clock.at += 2 * DAY_MS;
    const find = (instance: StoreInstance, space: Space) => instance.store.findNode(space, waiting.hash);
    const damaged = await openInstance(url, { clock });
    for (let step = 0; step < STEPS; step += 1) {
      const failure = await sweep(coreOf(damaged, content)).catch((error) => error);
      expect(failure.message).toContain('block 0 of the table nodes is damaged');
    }
    for (const other of others)
      expect([other.spaceId, await find(damaged, other)]).toEqual([other.spaceId, undefined]);
    await damaged.close();

    await mend();
    const mended = await openInstance(url, { clock });
    expect(await find(mended, SPACE)).toMatchObject({ state: 'waiting' });
    await sweep(coreOf(mended, content));
    expect(await find(mended, SPACE)).toBeUndefined();
    await mended.close();
  },
  TEST_MS_MAX,
);
