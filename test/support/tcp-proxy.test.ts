import { afterEach, expect, test } from 'bun:test';
import { connect as connectTo, createServer, type Socket } from 'node:net';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { until } from './until.ts';

const BODY_BYTES = 200_000;
/** more than the buffers between a sender and a slow receiver take, many times */
const FULL_BYTES = 32 * 1024 * 1024;
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Answers each line `N` with N bytes. */
async function startSource(): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      for (const line of data.toString().trim().split('\n')) socket.write(Buffer.alloc(Number(line), 7));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  cleanups.push(() => server.close());
  return (server.address() as { port: number }).port;
}

async function startProxy(options?: { cutPauseMs: number }): Promise<TcpProxy> {
  const proxy = await startTcpProxy({ port: await startSource() }, options);
  cleanups.push(() => proxy.close());
  return proxy;
}

interface Client {
  readonly socket: Socket;
  received: number;
  /** 'end', or the code of the error */
  readonly closed: Promise<string>;
}

async function open(proxy: TcpProxy): Promise<Client> {
  const socket = connectTo({ host: '127.0.0.1', port: proxy.port });
  let outcome = 'end';
  socket.on('error', (error: { code?: string }) => {
    outcome = error.code ?? 'error';
  });
  const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(outcome)));
  const client: Client = { socket, received: 0, closed };
  socket.on('data', (data) => {
    client.received += data.length;
  });
  cleanups.push(() => socket.destroy());
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
  return client;
}

async function untilReceived(client: Client, bytes: number, withinMs = 20_000): Promise<number> {
  const startedAt = performance.now();
  while (client.received < bytes && performance.now() - startedAt < withinMs) await Bun.sleep(2);
  expect(client.received).toBe(bytes);
  return performance.now() - startedAt;
}

test('pass: bytes go both ways, and the end of the client ends the connection', async () => {
  const proxy = await startProxy();
  const client = await open(proxy);
  client.socket.write(`${BODY_BYTES}\n`);
  await untilReceived(client, BODY_BYTES);
  expect(proxy.connections).toBe(1);
  client.socket.destroy();
  await until(() => proxy.connections === 0);
  expect(proxy.accepted).toBe(1);
});

test('hang: old and new connections are accepted and get nothing until it passes, then all of it', async () => {
  const proxy = await startProxy();
  const old = await open(proxy);
  old.socket.write('10\n');
  await untilReceived(old, 10);
  proxy.setMode({ kind: 'hang' });
  const fresh = await open(proxy);
  old.socket.write('20\n');
  fresh.socket.write('30\n');
  await Bun.sleep(150);
  expect([old.received, fresh.received, proxy.connections]).toEqual([10, 0, 2]);
  proxy.setMode({ kind: 'pass' });
  await untilReceived(old, 30);
  await untilReceived(fresh, 30);
});

test('reset: open and new connections break at once until it passes again', async () => {
  const proxy = await startProxy();
  const old = await open(proxy);
  proxy.setMode({ kind: 'reset' });
  expect(await old.closed).toBe('ECONNRESET');
  const refused = await open(proxy).catch(() => undefined);
  if (refused !== undefined) expect(await refused.closed).toBe('ECONNRESET');
  proxy.setMode({ kind: 'pass' });
  const next = await open(proxy);
  next.socket.write('5\n');
  await untilReceived(next, 5);
});

test('slow: each chunk is late, and no faster than so many bytes a second', async () => {
  const proxy = await startProxy();
  const client = await open(proxy);
  proxy.setMode({ kind: 'slow', bytesPerSecond: BODY_BYTES * 2, delayMs: 0 });
  client.socket.write(`${BODY_BYTES}\n`);
  expect(await untilReceived(client, BODY_BYTES)).toBeGreaterThan(400);
  proxy.setMode({ kind: 'slow', bytesPerSecond: 1e9, delayMs: 100 });
  client.socket.write('1\n');
  expect(await untilReceived(client, BODY_BYTES + 1)).toBeGreaterThan(190);
});

test('cut: so many bytes of answers, then a reset; for one connection alone when asked', async () => {
  const proxy = await startProxy();
  proxy.setModeOnce({ kind: 'cut', afterBytes: 1000 });
  const [cut, whole] = [await open(proxy), await open(proxy)];
  for (const { socket } of [cut, whole]) socket.write(`${BODY_BYTES}\n`);
  expect(await cut.closed).toBe('ECONNRESET');
  expect(cut.received).toBeLessThanOrEqual(1000);
  await untilReceived(whole, BODY_BYTES);
});

test('a cut that has begun ends when the proxy changes, and nothing of the answer is missing', async () => {
  const proxy = await startProxy({ cutPauseMs: 20_000 });
  const client = await open(proxy);
  proxy.setMode({ kind: 'cut', afterBytes: 1000 });
  client.socket.write(`${BODY_BYTES}\n`);
  await untilReceived(client, 1000);
  proxy.setMode({ kind: 'pass' });
  await untilReceived(client, BODY_BYTES);
  expect(proxy.connections).toBe(1);
});

test('a connection that is often full keeps no listeners', async () => {
  const proxy = await startProxy();
  const client = await open(proxy);
  const added: string[] = [];
  const warned = (warning: Error): number => added.push(warning.message);
  process.on('warning', warned);
  cleanups.push(() => process.off('warning', warned));
  client.socket.on('data', () => {
    client.socket.pause();
    setTimeout(() => client.socket.resume(), 1);
  });
  client.socket.write(`${FULL_BYTES}\n`);
  await untilReceived(client, FULL_BYTES);
  expect(added).toEqual([]);
});
