/** The limit of active uploads is kept exactly, however many processes open them. Far from it, no lease waits for another. */
import { describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { until } from '../../../../test/support/until.ts';
import type { Core } from '../../core/core.ts';
import type { DirectStore } from '../../core/test/direct-store.ts';
import { hashAt, openUpload, SPACE } from '../test/samples.ts';
import {
  coreOf,
  leaseFor,
  makeContent,
  openInstance,
  type StoreInstance,
  useProcesses,
} from './test/postgres-fixture.ts';

const PROCESSES = 3;
/** Sessions of this database that wait for a lock */
const WAITING = `SELECT count(*) AS count FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'`;

let url: string;
let instances: StoreInstance[];
let content: DirectStore;
let made = 0;

useProcesses(PROCESSES, {
  use(opened, itsUrl) {
    instances = opened;
    url = itsUrl;
    content = makeContent();
  },
});

function newNode(): CanonicalNode {
  made += 1;
  return makeNode(`node ${made}`);
}

describe('the limit of active uploads', () => {
  for (const limit of [
    { activeUploadsMax: 1, why: 'with one permit' },
    { activeUploadsMax: 20, why: 'with fewer permits than connections' },
    { activeUploadsMax: 230, why: 'with more: together at first, alone close to the limit' },
  ]) {
    test(`is met exactly by ${PROCESSES} processes, ${limit.why}`, async () => {
      const { activeUploadsMax } = limit;
      const limited = instances.map((instance) => coreOf(instance, content, { activeUploadsMax }));
      const asked = Array.from({ length: activeUploadsMax + 40 }, (_, index) =>
        leaseFor(limited[index % PROCESSES] as Core, newNode()).then(
          ({ state }) => state,
          (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
        ),
      );
      const answers = Map.groupBy(await Promise.all(asked), (answer) => answer);
      expect(answers.get('awaiting_upload')?.length).toBe(activeUploadsMax);
      expect(answers.get('CAS_UPLOAD_LIMIT')?.length).toBe(40);
    }, 300_000);
  }
});

test('far from the limit an upload is opened while another that has not committed holds its permit', async () => {
  const activeUploadsMax = 150;
  const { rows } = await (instances[0] as StoreInstance).pool.run(
    'looking',
    "SELECT current_setting('max_connections')::int AS count",
    [],
  );
  expect(rows[0]?.count).toBeGreaterThan(activeUploadsMax);
  const instance = await openInstance(url, { connectionsMax: 2 });
  const core = coreOf(instance, content, { activeUploadsMax });
  await Promise.all([newNode(), newNode()].map((node) => leaseFor(core, node)));
  await instance.store.transact(SPACE, async (tx) => {
    expect(await tx.countActiveUploads(activeUploadsMax)).toBe(2);
    await tx.insert('upload', openUpload(hashAt(1)));
    expect((await leaseFor(core, newNode())).state).toBe('awaiting_upload');
  });
  await instance.close();
});

test('the last upload below the limit is waited for by the next one, which is then refused', async () => {
  const activeUploadsMax = 8;
  const instance = await openInstance(url, { connectionsMax: 2 });
  const core = coreOf(instance, content, { activeUploadsMax });
  for (let count = 1; count < activeUploadsMax; count += 1) await leaseFor(core, newNode());
  let settled = false;
  let next: Promise<unknown> | undefined;
  const { pool } = instances[0] as StoreInstance;
  const isWaiting = async (): Promise<boolean> => {
    const { rows } = await pool.read('looking', WAITING, []);
    return settled || rows[0]?.count === 1;
  };
  await instance.store.transact(SPACE, async (tx) => {
    expect(await tx.countActiveUploads(activeUploadsMax)).toBe(activeUploadsMax - 1);
    await tx.insert('upload', openUpload(hashAt(1)));
    next = leaseFor(core, newNode())
      .catch((error: unknown) => error)
      .finally(() => {
        settled = true;
      });
    await until(isWaiting);
  });
  expect(((await next) as ApiError).code).toBe('CAS_UPLOAD_LIMIT');
  await instance.close();
});
