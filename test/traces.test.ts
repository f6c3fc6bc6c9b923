/** Traces of a real server, sent to a real receiver on loopback that accepts only the JSON of OTLP. */
import { afterAll, expect, test } from 'bun:test';
import { gunzipSync } from 'node:zlib';
import { makeNode } from './support/canonical-node.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { ROOT } from './support/server-process.ts';
import { until } from './support/until.ts';

interface Value {
  readonly stringValue?: string;
  readonly intValue?: string;
}
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Value }[];
  readonly status: { readonly code?: number };
}
interface Receiver {
  readonly url: string;
  readonly spans: Span[];
  readonly services: Set<string | undefined>;
  readonly bodies: string[];
  readonly encodings: Set<string | null>;
  readonly faults: string[];
  end(): Promise<void>;
}

const running: RunningServer[] = [];
const receivers: Receiver[] = [];
afterAll(async () => {
  await Promise.all([...running.map((each) => each.remove()), ...receivers.map((each) => each.end())]);
});

const SPAN_KEYS =
  /^(?:traceId|spanId|parentSpanId|flags|name|kind|startTimeUnixNano|endTimeUnixNano|attributes|status)$/;
const keysOf = (value: object): string => Object.keys(value).toSorted().join();

/** The faults of a span. */
function* faultsOf(span: Span): Generator<string> {
  for (const key of Object.keys(span)) if (!SPAN_KEYS.test(key)) yield `key ${key}`;
  if (!/^(?!0+$)[0-9a-f]{32}$/.test(span.traceId)) yield `traceId ${span.traceId}`;
  for (const id of [span.spanId, span.parentSpanId ?? span.spanId])
    if (!/^(?!0+$)[0-9a-f]{16}$/.test(id)) yield `id ${id}`;
  for (const time of [span.startTimeUnixNano, span.endTimeUnixNano]) {
    if (!/^\d{19}$/.test(time) || Math.abs(Number(time) / 1e6 - Date.now()) > 600_000) yield `time ${time}`;
  }
  if (BigInt(span.startTimeUnixNano) > BigInt(span.endTimeUnixNano)) yield 'it ends before it starts';
  if (![1, 2].includes(span.kind) || !Number.isInteger(span.flags) || span.name === '') yield 'kind';
  for (const { key, value, ...more } of span.attributes) {
    const isValue = keysOf(value) === 'stringValue' || /^\d+$/.test(value.intValue ?? '');
    if (typeof key !== 'string' || !isValue || keysOf(more) !== '') yield `attribute ${key}`;
  }
}

function startReceiver(): Receiver {
  const spans: Span[] = [];
  const services = new Set<string | undefined>();
  const faults: string[] = [];
  const bodies: string[] = [];
  const encodings = new Set<string | null>();
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const type = request.headers.get('content-type');
      const isSecret = request.headers.get('x-key') === 'a secret';
      if (request.method !== 'POST' || pathname !== '/v1/traces' || type !== 'application/json' || !isSecret)
        faults.push(`${request.method} ${pathname} ${type} ${isSecret}`);
      const sent = Buffer.from(await request.arrayBuffer());
      const encoding = request.headers.get('content-encoding');
      encodings.add(encoding);
      const text = (encoding === 'gzip' ? gunzipSync(sent) : sent).toString();
      bodies.push(text);
      const body = JSON.parse(text);
      if (keysOf(body) !== 'resourceSpans') faults.push(keysOf(body));
      for (const { resource, scopeSpans, ...more } of body.resourceSpans) {
        if (keysOf(more) !== '') faults.push(keysOf(more));
        services.add(attributesOf(resource)['service.name']);
        for (const each of scopeSpans) {
          if (keysOf(each) !== 'scope,spans') faults.push(keysOf(each));
          for (const span of each.spans) faults.push(...faultsOf(span));
          spans.push(...each.spans);
        }
      }
      return Response.json({});
    },
  });
  const receiver = {
    ...{ url: `http://127.0.0.1:${server.port}`, spans, services, faults, bodies, encodings },
    end: () => server.stop(true),
  };
  receivers.push(receiver);
  return receiver;
}

function attributesOf({ attributes }: Pick<Span, 'attributes'>): Record<string, string | undefined> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));
}

async function start(url: string, environment: Record<string, string> = {}): Promise<RunningServer> {
  const each = await startFreshServer('traces', {
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20secret',
      OTEL_BSP_SCHEDULE_DELAY: '20',
      ...environment,
    },
  });
  running.push(each);
  return each;
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

async function readMetadata({ server, issuer }: RunningServer, hash: string, traceParent: string) {
  const url = `${server.url}/v1/apps/${APP}/spaces/space/cas/nodes/${hash}/metadata`;
  const headers = { authorization: `Bearer ${issuer.token('space')}`, traceparent: traceParent };
  return (await fetch(url, { headers })).status;
}

test('a request is a span of its caller’s trace, its steps are children, and no secret is sent', async () => {
  const receiver = startReceiver();
  const each = await start(receiver.url);
  const node = makeNode('traced');
  await each.client().store(node);
  expect(await readMetadata(each, node.hash, `00-${TRACE}-${PARENT}-00`)).toBe(200);
  expect(await readMetadata(each, node.hash, `00-${TRACE}-${PARENT}-01`)).toBe(200);
  expect(await readMetadata(each, node.hash, `00-${TRACE}-${PARENT}-01-more`)).toBe(200);
  await fetch(`${each.server.url}/v1/apps/nobody/spaces/space/cas/usage`, {
    headers: { traceparent: `00-${TRACE}-${PARENT}-00` },
  });
  // The last ones are sent at the drain.
  await each.server.end('SIGTERM');
  expect(receiver.faults).toEqual([]);
  expect([...receiver.services]).toEqual(['holdfast']);
  expect([...receiver.encodings]).toEqual([null]);
  const ours = receiver.spans.filter(({ parentSpanId }) => parentSpanId === PARENT);
  expect(ours.map(({ name, kind, traceId, flags }) => ({ name, kind, traceId, flags }))).toEqual([
    { name: 'readMetadata', kind: 2, traceId: TRACE, flags: 0x301 },
  ]);
  const [span] = ours as [Span];
  expect(attributesOf(span)).toEqual({
    'http.request.method': 'GET',
    'http.route': '/v1/apps/{appId}/spaces/{spaceId}/cas/nodes/{hash}/metadata',
    'http.response.status_code': '200',
    'url.scheme': 'http',
    'server.address': '127.0.0.1',
    'holdfast.app': APP,
  });
  const children = receiver.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId);
  expect(children.map(({ name }) => name)).toEqual(['cas_auth', 'cas_meta_find_node', 'cas_dispatch']);
  for (const child of children) {
    expect([child.traceId, child.kind]).toEqual([TRACE, 1]);
    expect(BigInt(child.startTimeUnixNano) >= BigInt(span.startTimeUnixNano)).toBe(true);
    expect(BigInt(child.endTimeUnixNano) <= BigInt(span.endTimeUnixNano)).toBe(true);
  }
  const roots = receiver.spans.filter(({ parentSpanId }) => parentSpanId === undefined);
  expect(roots.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['leaseNode', 'upload', 'readMetadata', 'getUsage']),
  );
  // A stranger decides neither whose trace it is nor whether it is kept.
  const refused = roots.find(({ name }) => name === 'getUsage') as Span;
  expect(attributesOf(refused)['holdfast.app']).toBeUndefined();
  const sent = receiver.bodies.join();
  for (const secret of ['eyJ', 'Bearer', 'a secret', node.hash, 'nobody']) expect(sent).not.toContain(secret);
});

test('spans are sent packed if that is wanted', async () => {
  const receiver = startReceiver();
  const each = await start(receiver.url, { OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' });
  await each.client().store(makeNode('packed'));
  await each.server.end('SIGTERM');
  expect([receiver.faults, [...receiver.encodings]]).toEqual([[], ['gzip']]);
  expect(receiver.spans.length).toBeGreaterThan(0);
});

test('a receiver that is away delays no request, and the log says so without the headers', async () => {
  const away = startReceiver();
  await away.end();
  const each = await start(away.url, { OTEL_SERVICE_NAME: 'ours', OTEL_TRACES_SAMPLER: 'always_on' });
  const node = makeNode('unseen');
  await each.client().store(node);
  await until(() => each.server.log().includes('traces could not be sent'));
  expect(await readMetadata(each, node.hash, `00-${TRACE}-${PARENT}-00`)).toBe(200);
  expect(each.server.log()).not.toContain('secret');
  await each.server.end('SIGTERM');
});

test('the code of traces is loaded only if they are wanted', async () => {
  const isLoaded = (environment: Record<string, string>): string => {
    const code = `const { openTraces } = await import('./packages/server/serve/traces.ts');
      const tracer = await openTraces(${JSON.stringify(environment)}, console, 0);
      console.log(tracer !== undefined, Object.keys(require.cache).some((each) => each.includes('/server/traces/')));`;
    const { stdout, stderr } = Bun.spawnSync([process.execPath, '-e', code], { cwd: ROOT });
    return `${stdout}${stderr}`.trim();
  };
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
  expect(isLoaded(endpoint)).toBe('true true');
  expect(isLoaded({})).toBe('false false');
  expect(isLoaded({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBe('false false');
  expect(isLoaded({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBe('false false');
});

test('what cannot be used is refused in one line that does not show an address', async () => {
  await expect(start('http://me:hidden@127.0.0.1')).rejects.toThrow('holds a user or password');
  const zstd = { OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd' };
  await expect(start('http://127.0.0.1:1', zstd)).rejects.toThrow('must be one of none, gzip');
});
