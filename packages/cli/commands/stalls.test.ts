/**
 * A server that does not answer, or is not there for now: commands say within seconds what they wait for. Those that wait
 * for a stall wait side by side.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { encodeNode } from '@holdfast/protocol';
import { HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const HASH = 'a'.repeat(64);
/** A stall is told after eight seconds; many commands start at once, and the machine may be busy. */
const TOLD_AFTER_MS_MAX = 150_000;
const folder = makeTempFolder('stalls');
const place = new Workplace();
const servers: Bun.Server<undefined>[] = [];

/** Answers everything alike. */
function serve(answer: (request: Request) => Response | Promise<Response>): string {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: answer });
  servers.push(server);
  return `http://127.0.0.1:${server.port}`;
}

function serveWithoutBulk(answer: (request: Request) => Response): string {
  return serve((request) => (request.url.includes('/bulk/') ? refuse(404, 'NOT_FOUND') : answer(request)));
}

function refuse(status: number, error: string, retryAfter = '60'): Response {
  return Response.json({ error, message: 'planted' }, { status, headers: { 'retry-after': retryAfter } });
}

let silent: string;
let unavailable: string;
/** asks for a wait that every command is ready for */
let unavailableForLong: string;

beforeAll(async () => {
  silent = serve(() => new Promise<Response>(() => undefined));
  unavailableForLong = serve(() => refuse(503, 'SERVICE_UNAVAILABLE', '25'));
  unavailable = serve(() => refuse(503, 'SERVICE_UNAVAILABLE'));
  const node = encodeNode({ contentType: 'text/plain', refs: [], content: Uint8Array.of(1) });
  const hash = new Bun.CryptoHasher('sha256').update(node).digest();
  // A block is its length, its CID, its bytes; the header is that of one root.
  const cid = Buffer.concat([Buffer.from('01551220', 'hex'), hash]);
  const header = Buffer.concat([
    Buffer.from('a265726f6f747381d82a582500', 'hex'),
    cid,
    Buffer.from('6776657273696f6e01', 'hex'),
  ]);
  const block = Buffer.concat([cid, node]);
  writeFileSync(
    `${folder.path}/x.car`,
    Buffer.concat([Buffer.of(header.length), header, Buffer.of(block.length), block]),
  );
});
afterAll(async () => {
  for (const server of servers) await server.stop(true);
  await place.remove();
  folder.remove();
});

interface Told {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs until stderr has `count` times `until`, then kills the command: what it said. */
async function listen(url: string, args: readonly string[], until: string, count = 1): Promise<Told> {
  const child = Bun.spawn(args[0] === 'sh' ? [...args] : [HOLDFAST, ...args], {
    cwd: folder.path,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: place.folder,
      HOLDFAST_URL: url,
      HOLDFAST_APP: 'demo',
      HOLDFAST_SPACE: 'space',
      HOLDFAST_TOKEN: 'a.b.c',
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: TOLD_AFTER_MS_MAX * count,
    killSignal: 'SIGKILL',
  });
  const stdout = new Response(child.stdout).text();
  let stderr = '';
  for await (const chunk of child.stderr) {
    stderr += new TextDecoder().decode(chunk);
    if (stderr.split(until).length > count) child.kill('SIGKILL');
  }
  await child.exited;
  return { stdout: await stdout, stderr };
}

/** Every command that reads or brings nodes. */
const ALL = [
  ['ls', HASH],
  ['cat', HASH],
  ['tree', HASH],
  ['diff', HASH, 'b'.repeat(64)],
  ['du', HASH],
  ['verify', HASH],
  ['pull', HASH, 'copy'],
  ['mount', HASH, '.'],
  ['bundle', 'create', HASH, '--out', 'y.car'],
  ['bundle', 'import', 'x.car'],
] as const;

const ASKERS = [
  'push x.car',
  'node put x.car',
  `node get ${HASH}`,
  `node stat ${HASH}`,
  `node lease ${HASH}`,
  'refs list --all',
  `refs update ${HASH}=+1`,
  'usage',
  'gc --all',
].map((text) => text.split(' '));

test.concurrent(
  'a server that does not answer is named by every other command that asks it',
  async () => {
    const told = await Promise.all(ASKERS.map((args) => listen(silent, args, 'stalled')));
    for (const [index, { stderr }] of told.entries()) {
      expect([ASKERS[index]?.join(' '), stderr]).toEqual([
        ASKERS[index]?.join(' '),
        expect.stringMatching(
          /(^|\n)stalled for \d+ s: no answer yet (from http:\/\/127\.0\.0\.1:\d+|to .*)\n$/,
        ),
      ]);
    }
  },
  TOLD_AFTER_MS_MAX * 2,
);

test.concurrent(
  'a refusal that may pass is told in the words of the server by a command that asks once',
  async () => {
    const { stderr } = await listen(unavailableForLong, ['usage'], 'stalled');
    expect(stderr).toMatch(/^stalled for \d+ s: the server said: planted; trying again\n$/);
  },
  TOLD_AFTER_MS_MAX * 2,
);

test.concurrent(
  'a server that does not answer is named as the cause by every command that reads or brings nodes',
  async () => {
    const told = await Promise.all(ALL.map((args) => listen(silent, args, 'stalled')));
    for (const [index, { stdout, stderr }] of told.entries()) {
      expect([ALL[index]?.[0], stdout]).toEqual([ALL[index]?.[0], '']);
      expect(stderr).toMatch(
        /stalled for \d+ s: no answer yet to (?:reading|a question for) [0-9a-f]{64}(?: and \d+ more nodes)?\n/,
      );
    }
  },
  TOLD_AFTER_MS_MAX * 2,
);

test.concurrent(
  'a server that is not available for now is named too, as an event with --json',
  async () => {
    const all = [
      ['ls', HASH],
      ['tree', HASH],
      ['bundle', 'create', HASH, '--out', 'z.car'],
      ['bundle', 'import', 'x.car'],
    ].map((args) => [...args, '--json']);
    const told = await Promise.all(all.map((args) => listen(unavailable, args, '"stall"')));
    for (const { stderr } of told) {
      const events = stderr
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      const stall = events.find(({ type }) => type === 'stall');
      expect(stall.cause).toContain('planted (SERVICE_UNAVAILABLE); trying again');
    }
    // Short commands print nothing but the stall.
    expect(told[0]?.stderr.trimEnd().split('\n')).toHaveLength(1);
  },
  TOLD_AFTER_MS_MAX * 2,
);

test.concurrent(
  'a stall that lasts is told again, and its cause once',
  async () => {
    const { stderr } = await listen(silent, ['ls', HASH], 'stalled', 2);
    const [, first, second] = /^stalled for (\d+) s: .+\nstalled for (\d+) s\n$/.exec(stderr) ?? [];
    expect(Number(first)).toBeGreaterThanOrEqual(8);
    expect(Number(second)).toBeGreaterThan(Number(first));
  },
  TOLD_AFTER_MS_MAX * 3,
);

test.concurrent(
  'a pipe that gives nothing to an import, or takes nothing of a bundle, is named',
  async () => {
    const content = new Uint8Array(1024 * 1024);
    const hash = new Bun.CryptoHasher('sha256')
      .update(encodeNode({ contentType: 'text/plain', refs: [], content }))
      .digest('hex');
    const metadata = { hash, size: content.length, contentType: 'text/plain', refs: [] };
    const state = { leaseStartedAt: 1, leaseExpiresAt: 2, childRefCount: 0, rootRefCount: 0 };
    const url = serveWithoutBulk((request) =>
      request.url.endsWith('/content')
        ? new Response(content, { headers: { 'content-type': 'text/plain' } })
        : Response.json({ metadata, state }),
    );
    const [given, taken] = await Promise.all([
      // Each holds the other end of its pipe itself, so that it never ends.
      listen(url, ['sh', '-c', `mkfifo in; exec "${HOLDFAST}" bundle import 0<>in`], 'stalled'),
      listen(url, ['sh', '-c', `mkfifo out; exec "${HOLDFAST}" bundle create ${hash} 1<>out`], 'stalled'),
    ]);
    expect(given.stderr).toContain('s: no further bytes yet of the bundle (-)\n');
    expect(taken.stderr).toContain('s: what reads the bundle has not taken all of it yet\n');
  },
  TOLD_AFTER_MS_MAX * 2,
);

test('a node whose bytes are lost ends a bundle soon, with its name', async () => {
  const url = serveWithoutBulk((request) => {
    if (request.url.endsWith('/content')) return refuse(503, 'SERVICE_UNAVAILABLE');
    const metadata = { hash: HASH, size: 1, contentType: 'text/plain', refs: [] };
    const state = { leaseStartedAt: 1, leaseExpiresAt: 2, childRefCount: 0, rootRefCount: 0 };
    return Response.json({ metadata, state });
  });
  const startedAt = performance.now();
  const { stderr } = await listen(url, ['bundle', 'create', HASH, '--out', 'rotten.car'], 'never');
  expect(stderr).toMatch(
    new RegExp(`^holdfast: ${HASH}: the server has lost the bytes .* holdfast push --check`),
  );
  // Much less than the minutes for which a push or pull goes on trying.
  expect(performance.now() - startedAt).toBeLessThan(30_000);
}, 300_000);
