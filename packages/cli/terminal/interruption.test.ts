/** Ctrl-C and SIGTERM: every command ends within two seconds, by that signal, after one line that says what is kept. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { CHECKOUT_HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const HASH = 'a'.repeat(64);
/** The promised time and a margin for a busy machine. A command that misses the signal goes on for minutes. */
const END_MS_MAX = 2_000 + 43_000;
const TIMEOUT_MS = 300_000;
/** Only ends what hangs. */
const GIVE_UP_MS = 200_000;
const place = new Workplace(CHECKOUT_HOLDFAST);
/** Takes connections and never answers. `onConnection` hears of the next one. */
let hung: Server;
let port = 0;
const servers: Bun.Server<undefined>[] = [];
const sockets = new Set<Socket>();
let onConnection: () => void = () => undefined;

beforeAll(async () => {
  hung = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).resume();
    onConnection();
  });
  await new Promise<void>((done) => hung.listen(0, '127.0.0.1', done));
  const address = hung.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
  Bun.spawnSync(['mkfifo', place.path('fifo')]);
  for (const name of ['one', 'two', 'three']) {
    mkdirSync(place.path('tree', name), { recursive: true });
    writeFileSync(place.path('tree', name, 'file'), name);
  }
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  hung.close();
  for (const server of servers) void server.stop(true);
  await place.remove();
});

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** from the signal to the end */
  readonly ms: number;
}

interface Run {
  readonly signal?: 'SIGINT' | 'SIGTERM';
  /** sent once this resolves; by default at the first connection to the hung server */
  readonly until?: (child: ReturnType<typeof spawn>) => Promise<unknown>;
  readonly stdin?: 'ignore' | 'pipe';
  /** nobody reads stdout */
  readonly isUnread?: boolean;
  /** the signal goes to all of the process group, as Ctrl-C does */
  readonly isGroup?: boolean;
}

async function interrupt(command: readonly string[], run: Run = {}): Promise<Ended> {
  const { signal = 'SIGINT', stdin = 'ignore', isUnread = false, isGroup = false } = run;
  const connected = new Promise<void>((done) => {
    onConnection = done;
  });
  const child = spawn(command[0] as string, command.slice(1), {
    cwd: place.folder,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: place.folder,
      HOLDFAST_URL: `http://127.0.0.1:${port}`,
      HOLDFAST_APP: 'demo',
      HOLDFAST_SPACE: 'home',
      HOLDFAST_TOKEN: 'a.b.c',
      PGPASSWORD: 'none',
      AWS_ACCESS_KEY_ID: 'none',
      AWS_SECRET_ACCESS_KEY: 'none',
    },
    stdio: [stdin, 'pipe', 'pipe'],
    detached: isGroup,
  });
  const said = { stdout: '', stderr: '' };
  if (!isUnread) child.stdout?.on('data', (chunk) => (said.stdout += chunk));
  child.stderr?.on('data', (chunk) => (said.stderr += chunk));
  const ended = new Promise<[number | null, string | null]>((done) => {
    child.on('exit', (code, by) => done([code, by]));
  });
  const giveUp = setTimeout(() => child.kill('SIGKILL'), GIVE_UP_MS);
  await Promise.race([run.until === undefined ? connected : run.until(child), ended]);
  const sentAt = performance.now();
  process.kill(isGroup ? -(child.pid as number) : (child.pid as number), signal);
  const [code, by] = await ended;
  const ms = performance.now() - sentAt;
  clearTimeout(giveUp);
  child.stdout?.destroy();
  return { code, signal: by, ...said, ms };
}

function expectEnd(ended: Ended, signal: 'SIGINT' | 'SIGTERM', line: RegExp): void {
  expect(ended).toMatchObject({ code: null, signal, stdout: '' });
  expect(ended.stderr).toMatch(line);
  expect(ended.ms).toBeLessThan(END_MS_MAX);
}

/** Until stderr has `text`. */
function saidOf(text: string): (child: ReturnType<typeof spawn>) => Promise<unknown> {
  return (child) =>
    new Promise((done) => child.stderr?.on('data', (chunk) => String(chunk).includes(text) && done(0)));
}

/** The address of a server with more root refs than a pipe takes. */
function listRefs(): string {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      const page = Number(new URL(request.url).searchParams.get('cursor') ?? 1);
      const items = Array.from({ length: 200 }, (_, index) => ({
        hash: (page * 1_000 + index).toString(16).padStart(64, '0'),
        refCount: 1,
      }));
      return Response.json({
        refDomain: 'x',
        revision: 1,
        items,
        nextCursor: page < 20 ? String(page + 1) : null,
      });
    },
  });
  servers.push(server);
  return `http://127.0.0.1:${server.port}`;
}

const ONE_LINE = /^holdfast: interrupted; [^\n]+\n$/;
const COMMANDS = [
  'push tree',
  'pull HASH copy',
  'verify HASH',
  'ls HASH',
  'cat HASH',
  'du HASH',
  'diff HASH HASH',
  'tree HASH',
  'bundle create HASH --out x.car',
  'node put tree/one/file',
  'node get HASH',
  'node get HASH --out got',
  'node stat HASH',
  'node lease HASH',
  'refs list',
  'refs update HASH=+1',
  'usage',
  'gc',
  'gc --all',
  'app list --metadata postgres://x@127.0.0.1:PORT/x',
  'app add x --issuer i --audience a --jwks-url http://127.0.0.1:PORT --metadata postgres://x@127.0.0.1:PORT/x',
  'migrate --from data --to postgres://x@127.0.0.1:PORT/x,s3://bucket?endpoint=http://127.0.0.1:PORT&region=us-east-1',
];

describe('a signal ends', () => {
  beforeAll(async () => {
    // A deployment to migrate.
    const server = spawn(
      CHECKOUT_HOLDFAST,
      ['serve', '--listen', '127.0.0.1:0', '--data', place.path('data')],
      {
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    await new Promise((done) => server.stdout.once('data', done));
    const ended = new Promise((done) => server.once('exit', done));
    server.kill('SIGTERM');
    await ended;
  }, TIMEOUT_MS);

  test.each(COMMANDS)(
    '%s, which waits for a server that never answers',
    async (text) => {
      const args = text.replaceAll('HASH', HASH).replaceAll('PORT', String(port)).split(' ');
      const signal = text.length % 2 === 0 ? 'SIGINT' : 'SIGTERM';
      expectEnd(await interrupt([CHECKOUT_HOLDFAST, ...args], { signal }), signal, ONE_LINE);
    },
    TIMEOUT_MS,
  );

  test('and leaves no part of a file behind', () => {
    expect(readdirSync(place.folder).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  test(
    'what waits for a pipe that gives nothing, or for a reader that takes nothing, and has said so',
    async () => {
      const waiting = [
        'bundle import',
        'node put -',
        'node hash -',
        'token --key FIFO --issuer i --audience a --space s --permission cas:nodes:read',
        'app add x --issuer i --audience a --jwks-file FIFO --data data',
        'usage --token-file FIFO',
        'push tree --ignore-file FIFO',
      ].map(async (text) => {
        const command = [CHECKOUT_HOLDFAST, ...text.replace('FIFO', place.path('fifo')).split(' ')];
        const ended = await interrupt(command, { stdin: 'pipe', until: saidOf('stalled') });
        expectEnd(
          ended,
          'SIGINT',
          /(^|\n)stalled for \d+ s: [^\n]+ bytes yet[^\n]*\n(.*\n)*holdfast: interrupted; .+\n$/,
        );
      });
      const unread = interrupt([CHECKOUT_HOLDFAST, 'refs', 'list', '--all', '--url', listRefs()], {
        until: saidOf('stalled'),
        isUnread: true,
      });
      await Promise.all(waiting);
      expectEnd(
        await unread,
        'SIGINT',
        /^revision 1 of domain x\nstalled for \d+ s: what reads the output has not taken all of it yet\nholdfast: interrupted; nothing was changed\n$/,
      );
    },
    TIMEOUT_MS,
  );

  test(
    'a loop of the shell too',
    async () => {
      const script = `for d in tree/*; do "${CHECKOUT_HOLDFAST}" push $d --quiet; done; echo went on`;
      const ended = await interrupt(['bash', '-c', script], { isGroup: true });
      expect(ended).toMatchObject({ signal: 'SIGINT', stdout: '' });
      expect(ended.stderr).toMatch(ONE_LINE);
      expect(ended.stderr.split('interrupted').length).toBe(2);
    },
    TIMEOUT_MS,
  );

  test(
    'what a shell without job control has started in the background, where Ctrl-C is ignored',
    async () => {
      const ended = await interrupt(['sh', '-c', `trap '' INT; exec "${CHECKOUT_HOLDFAST}" usage`]);
      expectEnd(ended, 'SIGINT', ONE_LINE);
    },
    TIMEOUT_MS,
  );

  test(
    'nothing that was started to outlive it: nohup',
    async () => {
      const until = async (child: ReturnType<typeof spawn>): Promise<void> => {
        await new Promise<void>((done) => {
          onConnection = done;
        });
        process.kill(child.pid as number, 'SIGHUP');
      };
      const script = `trap '' HUP; exec "${CHECKOUT_HOLDFAST}" usage`;
      const ended = await interrupt(['sh', '-c', script], { until, signal: 'SIGTERM' });
      expectEnd(ended, 'SIGTERM', ONE_LINE);
    },
    TIMEOUT_MS,
  );
});
