/** The lease keeper against the real server: it renews leases, tells which are lost, and outlives a restart. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import {
  type Client,
  createClient,
  type LeaseKeeperEvent,
  startLeaseKeeper,
} from '../packages/client/index.ts';
import { ManualClock } from '../packages/client/test/manual-clock-fixture.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';

const HOUR_MS = 3_600_000;

let running: RunningServer;
beforeAll(async () => {
  running = await startFreshServer('lease-keeper');
});
afterAll(() => running.remove());

function connect(): Client {
  return createClient({
    baseUrl: running.server.url,
    appId: APP,
    spaceId: SPACE,
    token: running.issuer.token(SPACE),
    retry: { attemptsMax: 2, delayMsBase: 1 },
  });
}

test('the lease keeper keeps roots leased, reports lost ones, and survives a restart of the server', async () => {
  const client = connect();
  const root = await client.putNode(
    { contentType: 'text/plain', content: 'root' },
    { leaseDurationMs: 60_000 },
  );
  const missing = 'd'.repeat(64);
  const parent = { contentType: 'text/plain', content: 'parent', refs: [missing] };
  const waiting = await client.putNode(parent);

  const clock = new ManualClock();
  const events: LeaseKeeperEvent[] = [];
  const answered = (hash: string): string[] =>
    events.flatMap((event) => ('hash' in event && event.hash === hash ? [event.type] : []));
  // Asked anew each time: the address of a restarted server is another one.
  const leaseNode: Client['leaseNode'] = (...call) => connect().leaseNode(...call);
  const keeper = startLeaseKeeper({
    client: { leaseNode },
    clock,
    leaseDurationMs: HOUR_MS,
    onEvent: (event) => events.push(event),
  });
  try {
    for (const hash of [root.hash, waiting.hash, missing]) keeper.add(hash);
    await keeper.renewAll();
    expect(answered(root.hash)).toEqual(['renewed']);
    expect(events).toContainEqual({ type: 'lost', hash: waiting.hash, state: 'validated_awaiting_children' });
    expect(events).toContainEqual({ type: 'lost', hash: missing, state: 'awaiting_upload' });
    const first = (await client.readMetadata(root.hash)).state;
    expect(first.leaseExpiresAt - first.leaseStartedAt).toBeGreaterThan(HOUR_MS - 60_000);

    keeper.remove(waiting.hash);
    keeper.remove(missing);
    expect(keeper.safeUntil).toBeGreaterThan(clock.now());
    expect((await client.runGc()).deleted).toBe(0);

    await running.server.end('SIGTERM');
    await keeper.renewAll();
    expect(answered(root.hash)).toEqual(['renewed', 'failed']);
    await running.restart('SIGTERM');
    await keeper.renewAll();
    expect(answered(root.hash)).toEqual(['renewed', 'failed', 'renewed']);
    const second = (await connect().readMetadata(root.hash)).state;
    expect(second.leaseStartedAt).toBe(first.leaseStartedAt);
    expect(second.leaseExpiresAt).toBeGreaterThan(first.leaseExpiresAt);
  } finally {
    await keeper.stop();
  }
}, 300_000);
