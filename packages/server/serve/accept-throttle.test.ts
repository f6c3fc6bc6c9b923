/** Connections that arrive together are accepted a few at a time, so that other work of the process runs in between. */
import { expect, test } from 'bun:test';
import { closeSync, fstatSync, openSync, readdirSync, readFileSync } from 'node:fs';
import type { Handler } from '../http/handler.ts';
import { AcceptThrottle } from '../runtime/accept-throttle.ts';
import { findListening, targetOf } from '../runtime/listening-sockets.ts';
import { parseServeConfig } from './config.ts';
import { listen } from './listener.ts';

const CONNECTIONS = 400;
/** Those between two pulls of the throttle, and some whose bytes came after their connection. */
const OF_ROUND_MAX = 100;
const LOOK_MS = 20;
const WAIT_MS_MAX = 60_000;

/** Ends when all requests are answered. */
const SENDER = `
  const { createConnection } = require('node:net');
  const [port, count] = process.argv.slice(1).map(Number);
  let answered = 0;
  for (let each = 0; each < count; each += 1) {
    const socket = createConnection({ port, host: '127.0.0.1' }, () => {
      socket.write('GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n');
    });
    socket.on('data', () => { answered += 1; if (answered === count) process.exit(0); });
  }`;

/** Connections to `port` that wait to be accepted. */
function countWaiting(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/self/net/tcp', 'latin1').split('\n');
  const fields = lines.map((line) => line.trim().split(/\s+/));
  const listening = fields.find(([, at, , state]) => state === '0A' && at?.endsWith(local));
  return parseInt(listening?.[4]?.split(':')[1] ?? '', 16);
}

test('after some requests of one round of the event loop, further connections wait for the next', async () => {
  let round = 0;
  const requestsOfRound = new Map<number, number>();
  const answer = (): Response => {
    requestsOfRound.set(round, (requestsOfRound.get(round) ?? 0) + 1);
    return new Response('here', { headers: { connection: 'close' } });
  };
  const handler: Handler = { handle: answer, handleSpace: answer, refuse: answer, replaceUnsent: answer };
  const files = readdirSync('/proc/self/fd').length;
  const listener = listen(parseServeConfig({ listen: '127.0.0.1:0' }, {}), 0, handler);
  const sender = Bun.spawn([process.execPath, '-e', SENDER, String(listener.port), String(CONNECTIONS)]);
  // A timer is too coarse and would miss rounds.
  let next: ReturnType<typeof setImmediate>;
  const countRound = (): void => {
    round += 1;
    next = setImmediate(countRound);
  };
  next = setImmediate(countRound);
  try {
    // This process is busy, until all connections wait.
    const endsAt = performance.now() + WAIT_MS_MAX;
    while (countWaiting(listener.port) < CONNECTIONS && performance.now() < endsAt) Bun.sleepSync(LOOK_MS);
    expect(await sender.exited).toBe(0);
  } finally {
    clearImmediate(next);
    sender.kill();
    await listener.drain();
  }
  const counts = [...requestsOfRound.values()];
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(CONNECTIONS);
  expect(Math.max(...counts)).toBeLessThanOrEqual(OF_ROUND_MAX);
  await expect(fetch(`http://127.0.0.1:${listener.port}/`)).rejects.toThrow();
  expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(files + 1);
}, 120_000);

test.each(['before the throttle', 'while it is on'])(
  'a file that has got the number of a socket which was closed %s is left alone',
  async (when) => {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('here') });
    const throttle = AcceptThrottle.open(server.port as number) as AcceptThrottle;
    const [socket] = findListening(server.port as number) as [number];
    const requests = (): void => {
      for (let request = 0; request < 64; request += 1) throttle.note();
    };
    if (when === 'while it is on') requests();
    await server.stop(true);
    const files: number[] = [];
    while (!files.includes(socket) && files.length < 100) files.push(openSync(import.meta.path, 'r'));
    if (when === 'before the throttle') requests();
    const { ino } = fstatSync(files[0] as number);
    for (const file of files) expect([targetOf(file), fstatSync(file).ino]).toEqual([import.meta.path, ino]);
    await new Promise((resolve) => setImmediate(resolve));
    for (const file of files) expect([targetOf(file), fstatSync(file).ino]).toEqual([import.meta.path, ino]);
    throttle.end();
    for (const file of files) closeSync(file);
  },
);
