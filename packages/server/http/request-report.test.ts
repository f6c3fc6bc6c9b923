import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { makeNode } from '../../../test/support/canonical-node.ts';
import { KeySetUnavailable } from '../auth/auth-limits.ts';
import type { SampleValue } from '../metrics/metric.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { RequestMetrics } from './request-report.ts';
import { type HandlerWorld, leaseRequest, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

function read(metric: string, labels = ''): SampleValue {
  return METRICS.snapshot()[metric]?.get(labels) ?? 0;
}

/** How much a counter grew while `act` ran: other tests of this process count too, one after another. */
async function growthOf(metric: string, labels: string, act: () => unknown): Promise<number> {
  const before = read(metric, labels) as number;
  await act();
  return (read(metric, labels) as number) - before;
}

const labelsOf = (operation: string, status: number, app: string): string =>
  `operation="${operation}",status="${status}",app="${app}"`;

describe('requests of a handler', () => {
  let world: HandlerWorld;
  beforeAll(async () => {
    world = await openHandlerWorld();
  });
  afterAll(() => world.close());

  test('are counted by operation, status and App, timed by operation', async () => {
    const { handle } = world.handler({ isRegistered: (appId) => appId === 'app' });
    const missing = new Request(`${SPACE_URL}/cas/nodes/${'0'.repeat(64)}/metadata`);
    const labels = labelsOf('readMetadata', 404, 'app');
    const timesBefore = read('holdfast_request_duration_seconds', 'operation="readMetadata"') as number[];
    expect(await growthOf('holdfast_requests_total', labels, () => handle(missing))).toBe(1);
    const times = read('holdfast_request_duration_seconds', 'operation="readMetadata"') as number[];
    const count = (all: number[]): number => all.slice(0, -1).reduce((sum, each) => sum + each, 0);
    expect(count(times) - count(timesBefore)).toBe(1);
  });

  test('what the key set of an App refuses is counted for that App, and reported as such', async () => {
    const keys = new KeySetUnavailable(
      'app',
      new ApiError('registry_unavailable', 'try again', { cause: 'x' }),
    );
    const { handle } = world.handler({
      authorize: () => Promise.reject(keys),
    });
    const asked = () => handle(new Request(`${SPACE_URL}/cas/usage`));
    expect(await growthOf('holdfast_key_set_refusals_total', 'app="app"', asked)).toBe(1);
    expect(world.failures.at(-1)).toMatchObject({ kind: 'keys', error: { appId: 'app' } });
  });

  test('bytes of bodies count both ways, and a HEAD sends none', async () => {
    const handler = world.handler();
    const hash = await world.store('x'.repeat(5000));
    const url = `${SPACE_URL}/cas/nodes/${hash}/content`;
    const get = () => handler.handle(new Request(url));
    const head = () => handler.handle(new Request(url, { method: 'HEAD' }));
    expect(await growthOf('holdfast_sent_bytes_total', '', get)).toBe(5000);
    expect(await growthOf('holdfast_sent_bytes_total', '', head)).toBe(0);
    const lease = leaseRequest(hash);
    const { length } = await lease.clone().text();
    expect(await growthOf('holdfast_received_bytes_total', '', () => handler.handle(lease))).toBe(length);
  });

  test('an upload counts the bytes that came, for the App of its URL', async () => {
    const { handle } = world.handler({ isRegistered: () => true });
    const node = makeNode('uploaded for its bytes');
    const { upload } = await (await handle(leaseRequest(node.hash))).json();
    const body = node.bytes as Uint8Array<ArrayBuffer>;
    const headers = { ...upload.headers, 'content-length': String(body.length) };
    const put = () => handle(new Request(upload.url, { method: 'PUT', headers, body }));
    const labels = labelsOf('upload', 200, 'app');
    const counted = growthOf('holdfast_requests_total', labels, async () => {
      expect(await growthOf('holdfast_received_bytes_total', '', put)).toBe(body.length);
    });
    expect(await counted).toBe(1);
  });

  test('a request for no route is counted as one, and does not stay in flight', async () => {
    const { handle, refuse } = world.handler();
    const labels = labelsOf('other', 404, 'other');
    expect(await growthOf('holdfast_requests_total', labels, () => handle(new Request('http://h/x')))).toBe(
      1,
    );
    expect(await growthOf('holdfast_requests_total', labels, () => refuse(new Request('http://h/x')))).toBe(
      1,
    );
    expect(read('holdfast_requests_in_flight')).toBe(0);
    expect(read('holdfast_uploads_in_flight')).toBe(0);
  });
});

describe('the label of an App', () => {
  const requestOf = (appId: string) => ({
    operation: 'getUsage' as const,
    space: { appId, spaceId: 's' },
    capability: undefined,
    sentBytes: 0,
    receivedBytes: 0,
    appWithoutKeys: undefined,
  });

  test('is never an App that is not registered', async () => {
    const metrics = new RequestMetrics(() => false);
    const act = () => metrics.record(requestOf('made up'), 401, 1);
    expect(await growthOf('holdfast_requests_total', labelsOf('getUsage', 401, 'other'), act)).toBe(1);
    expect([...(METRICS.snapshot().holdfast_requests_total?.keys() ?? [])].join()).not.toContain('made up');
  });

  test('is its id for the first thousand Apps, and "other" for the rest', async () => {
    const metrics = new RequestMetrics(() => true);
    const act = () => {
      for (let index = 0; index < 1010; index += 1) metrics.record(requestOf(`many-${index}`), 418, 1);
    };
    expect(await growthOf('holdfast_requests_total', labelsOf('getUsage', 418, 'other'), act)).toBe(10);
    expect(read('holdfast_requests_total', labelsOf('getUsage', 418, 'many-999'))).toBe(1);
  });
});
