/** Seeded malformed requests on bare sockets: the server answers none with a 5xx, and none ends it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { exchange, statusesOf } from './support/raw-connection.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';

/** The answers of the runtime's parser to HTTP/1.0 and to a line without a version. */
const VERSION_NOT_SUPPORTED = 505;

let running: RunningServer;

beforeAll(async () => {
  running = await startFreshServer('fuzz');
}, 300_000);

afterAll(async () => {
  await running.remove();
});

const usagePath = `/v1/apps/${APP}/spaces/${SPACE}/cas/usage`;
const gcPath = `/v1/apps/${APP}/spaces/${SPACE}/cas/gc`;

describe('fuzz', () => {
  const SEED = 20260101;
  const method = fc.constantFrom('GET', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'DELETE', 'get', 'G\0T', '');
  const target = fc.oneof(
    fc.constantFrom(usagePath, gcPath, '/health', '/uploads/a', `/v1/apps/${APP}/spaces/${SPACE}/root-refs`),
    fc.string({ unit: 'binary', maxLength: 60 }).map((text) => `/${text}`),
  );
  const header = fc.oneof(
    fc.tuple(
      fc.constantFrom(
        'Range',
        'Authorization',
        'Content-Type',
        'If-None-Match',
        'Content-Length',
        'Expect',
        'Transfer-Encoding',
        'Host',
      ),
      fc.oneof(
        fc.constantFrom('Bearer a.b.c', 'chunked', '5', '100-continue', 'bytes=0-', '*', 'application/json'),
        fc.string({ unit: 'binary', maxLength: 40 }),
      ),
    ),
    fc.tuple(fc.string({ unit: 'binary', maxLength: 20 }), fc.string({ unit: 'binary', maxLength: 40 })),
  );
  const structured = fc
    .record({
      method,
      target,
      version: fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/2', ''),
      headers: fc.array(header, { maxLength: 6 }),
      lineEnd: fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r'),
      body: fc.string({ unit: 'binary', maxLength: 200 }),
    })
    .map((r) => {
      const lines = [
        `${r.method} ${r.target} ${r.version}`,
        ...r.headers.map(([name, value]) => `${name}: ${value}`),
        '',
        r.body,
      ];
      return Buffer.from(lines.join(r.lineEnd), 'utf8');
    });
  const garbage = fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes));

  test(`none of 1500 malformed requests gets a 5xx or ends the server, seed ${SEED}`, async () => {
    const samples = fc.sample(
      fc.oneof({ arbitrary: structured, weight: 4 }, { arbitrary: garbage, weight: 1 }),
      {
        seed: SEED,
        numRuns: 1500,
      },
    );
    const lanes = Array.from({ length: 30 }, async (_, lane) => {
      for (let index = lane; index < samples.length; index += 30) {
        const bytes = samples[index] as Buffer;
        const received = await exchange(running.server.port, bytes, 60);
        const worst = Math.max(
          0,
          ...statusesOf(received).filter((status) => status !== VERSION_NOT_SUPPORTED),
        );
        expect(worst >= 500 ? `${worst} for ${JSON.stringify(bytes.toString('latin1'))}` : 'no 5xx').toBe(
          'no 5xx',
        );
      }
    });
    await Promise.all(lanes);
    expect((await fetch(`${running.server.url}/health`)).status).toBe(200);
    expect(running.server.log()).not.toMatch(/INTERNAL_ERROR|uncaught|unhandled/i);
  }, 300_000);
});
