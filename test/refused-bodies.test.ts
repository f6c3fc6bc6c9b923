/** The server refuses bodies before it reads them, and connections that it has not accepted yet. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { ANSWER_MS_MAX, openConnection, statusesOf } from './support/raw-connection.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const PATH = `/v1/apps/${APP}/spaces/${SPACE}/root-refs`;

let running: RunningServer;
beforeAll(async () => {
  running = await startFreshServer('refused-bodies');
}, 300_000);
afterAll(() => running.remove());

const headOf = (bytes: number, more = ''): string =>
  `POST ${PATH} HTTP/1.1\r\nHost: x\r\n${more}content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`;

test('a refused body that has not come closes its connection', async () => {
  const connection = await openConnection(running.server.port);
  connection.write(`${headOf(MIB)}${' '.repeat(20_000)}`);
  expect(await connection.closed(ANSWER_MS_MAX)).toBe(true);
  connection.destroy();
  expect(connection.received()).toStartWith('HTTP/1.1 401 ');
  expect(connection.received().toLowerCase()).toContain('connection: close\r\n');
});

test('a refused body that is larger than any may be is received to its end', async () => {
  const connection = await openConnection(running.server.port);
  connection.write(`${headOf(2 * MIB)}${' '.repeat(20_000)}`);
  await connection.wait((text) => statusesOf(text).length === 1, ANSWER_MS_MAX);
  connection.write(`${' '.repeat(2 * MIB - 20_000)}${headOf(2)}{}`);
  await connection.wait((text) => statusesOf(text).length === 2, ANSWER_MS_MAX);
  expect(statusesOf(connection.received())).toEqual([401, 401]);
  connection.destroy();
});

test('a refused body that is small leaves its connection open', async () => {
  const connection = await openConnection(running.server.port);
  for (let count = 1; count <= 3; count += 1) {
    connection.write(`${headOf(2)}{}`);
    await connection.wait((text) => statusesOf(text).length === count, ANSWER_MS_MAX);
  }
  expect(statusesOf(connection.received())).toEqual([401, 401, 401]);
  connection.destroy();
});

test('a client that is refused while it sends hears the answer, not a broken connection', async () => {
  const body = ' '.repeat(MIB);
  for (let round = 0; round < 20; round += 1) {
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const answer = await fetch(`${running.server.url}${PATH}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
        });
        await answer.arrayBuffer();
        return answer.status;
      }),
    );
    expect(new Set(statuses)).toEqual(new Set([401]));
  }
}, 300_000);

test('a body that brings less than 1 KiB/s is cut off', async () => {
  const authorization = `Bearer ${running.issuer.token(SPACE)}`;
  const connections = await Promise.all(
    [1000, 100_000].map(async (bytes) => {
      const connection = await openConnection(running.server.port);
      connection.write(headOf(bytes, `authorization: ${authorization}\r\n`));
      return connection;
    }),
  );
  const drip = setInterval(() => {
    for (const connection of connections) connection.write(' ');
  }, 500);
  try {
    for (const connection of connections)
      await connection.wait((text) => statusesOf(text).length > 0, ANSWER_MS_MAX);
  } finally {
    clearInterval(drip);
    for (const connection of connections) connection.destroy();
  }
  expect(connections.map((connection) => statusesOf(connection.received()))).toEqual([[400], [400]]);
}, 300_000);

/** Connections to `port` that wait to be accepted. */
function countWaiting(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/self/net/tcp', 'latin1').split('\n');
  const listening = lines
    .map((line) => line.trim().split(/\s+/))
    .find(([, at, , state]) => {
      return state === '0A' && at?.endsWith(local);
    });
  return parseInt(listening?.[4]?.split(':')[1] ?? '', 16);
}

test('1,000 connections at once wait for a process that is busy', async () => {
  const { pid, port, url } = running.server;
  const most = Number(readFileSync('/proc/sys/net/core/somaxconn', 'latin1'));
  const wanted = Math.min(1000, most);
  const sockets: Socket[] = [];
  process.kill(pid, 'SIGSTOP');
  try {
    for (let count = 0; count < wanted; count += 1) {
      const socket = createConnection({ port, host: '127.0.0.1' });
      socket.on('error', () => undefined);
      sockets.push(socket);
    }
    await until(() => countWaiting(port) >= wanted);
  } finally {
    process.kill(pid, 'SIGCONT');
    for (const socket of sockets) socket.destroy();
  }
  expect((await fetch(`${url}/health`)).status).toBe(200);
}, 300_000);
