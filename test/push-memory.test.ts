// test-run: alone
/** The memory of a push does not grow with the tree: the whole process, measured by the system. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { resultOf } from './support/command-result.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const RSS_BYTES_MAX = 200 * 1024 * 1024;
const FILES = 40_000;
const FILES_PER_FOLDER = 10_000;
const LARGE_BYTES = 400 * 1024 * 1024;
const PIECE_BYTES = 4 * 1024 * 1024;

const folder = makeTempFolder('push-memory');
let running: RunningServer;
let url: string;
/** A server that has every node already, so that only reading and hashing are measured. */
const fullServer = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: (request) => {
    if (request.url.includes('/bulk/')) return new Response('no such page', { status: 404 });
    const hash = request.url.split('/').at(-2);
    return Response.json({ state: 'ready', hash, leaseStartedAt: 1, leaseExpiresAt: 2 });
  },
});

beforeAll(async () => {
  running = await startFreshServer('push-memory-server');
  url = running.server.url;
});
afterAll(async () => {
  await fullServer.stop(true);
  await running.remove();
  folder.remove();
});

async function measure(path: string, server: string) {
  const child = Bun.spawn([HOLDFAST, 'push', path, '--json', '--quiet'], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: folder.path,
      HOLDFAST_URL: server,
      HOLDFAST_APP: APP,
      HOLDFAST_SPACE: 'memory',
      HOLDFAST_TOKEN: running.issuer.token('memory'),
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const peak = watchPeak(child);
  const [{ exitCode, stdout, stderr }, rssBytes] = await Promise.all([resultOf(child), peak]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return { result: JSON.parse(stdout), rssBytes };
}

/**
 * The most memory the process has ever held, as its own memory map says: `resourceUsage` would count what this test had when it
 * started it.
 */
async function watchPeak(child: Bun.Subprocess): Promise<number> {
  let peakBytes = 0;
  while (child.exitCode === null && child.signalCode === null) {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      peakBytes = Math.max(peakBytes, Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024);
    } catch (error) {
      // It ended between the look at its exit code and the look at its memory.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'ESRCH') throw error;
    }
    await Bun.sleep(10);
  }
  expect(peakBytes).toBeGreaterThan(0);
  return peakBytes;
}

describe('memory', () => {
  test(`of ${FILES} files, read and known again`, async () => {
    const path = join(folder.path, 'many');
    mkdirSync(path);
    for (let index = 0; index < FILES; index += 1) {
      const parent = join(path, `folder-${Math.floor(index / FILES_PER_FOLDER)}`);
      if (index % FILES_PER_FOLDER === 0) mkdirSync(parent);
      writeFileSync(join(parent, `a-file-with-number-${index}`), `content ${index}`);
    }
    await Bun.sleep(200);
    const first = await measure(path, `http://127.0.0.1:${fullServer.port}`);
    expect(first.result.readCount).toBe(FILES);
    expect(first.rssBytes).toBeLessThan(RSS_BYTES_MAX);
    const again = await measure(path, `http://127.0.0.1:${fullServer.port}`);
    expect(again.result).toMatchObject({ root: first.result.root, readCount: 0 });
    expect(again.rssBytes).toBeLessThan(RSS_BYTES_MAX);
  }, 300_000);

  test(`of one file of ${LARGE_BYTES} bytes on its way`, async () => {
    const path = join(folder.path, 'large');
    const file = openSync(path, 'w');
    const piece = new Uint8Array(PIECE_BYTES);
    for (let offset = 0; offset < PIECE_BYTES; offset += 65_536) {
      crypto.getRandomValues(piece.subarray(offset, offset + 65_536));
    }
    for (let written = 0; written < LARGE_BYTES; written += PIECE_BYTES) {
      // Enough for no chunk to be the twin of another: cuts follow the content, wherever it is changed.
      for (let at = 0; at < PIECE_BYTES; at += 100_000) piece[at] = (written / PIECE_BYTES + at) & 0xff;
      writeSync(file, piece);
    }
    closeSync(file);
    const { result, rssBytes } = await measure(path, url);
    expect(result.uploadedBytes).toBeGreaterThan(LARGE_BYTES / 2);
    expect(rssBytes).toBeLessThan(RSS_BYTES_MAX);
  }, 300_000);
});
