/**
 * `holdfast push` is killed, cut off and starved at any point: the same command goes on, sends no finished upload again, and
 * gives the tree its root ref exactly once.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CountingProxy, startCountingProxy } from './support/counting-proxy.ts';
import { buildPlan, type DirectoryPlan, directory, file, writePlan } from './support/disk-trees.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeRandom } from './support/seeded-random.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const KILLS = 20;
const ENDS_MS_MAX = 240_000;
/** How far a server lets the times in a token be off. */
const CLOCK_TOLERANCE_SECONDS = 30;

const folder = makeTempFolder('push-crash');
let running: RunningServer;
let proxy: CountingProxy;

beforeAll(async () => {
  running = await startFreshServer('push-crash-server');
  proxy = startCountingProxy(running.server.url);
});
afterAll(async () => {
  await proxy.close();
  await running.remove();
  folder.remove();
});

interface Push {
  readonly child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  readonly ended: Promise<{ exitCode: number; stdout: string; stderr: string }>;
}

function startPush(
  path: string,
  space: string,
  options: { url?: string; args?: readonly string[]; token?: string; onStderr?: (text: string) => void } = {},
): Push {
  const child = Bun.spawn([HOLDFAST, 'push', path, ...(options.args ?? [])], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: folder.path,
      HOLDFAST_URL: options.url ?? proxy.url,
      HOLDFAST_APP: APP,
      HOLDFAST_SPACE: space,
      HOLDFAST_TOKEN: options.token ?? running.issuer.token(space),
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: ENDS_MS_MAX,
  });
  const ended = Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    readText(child.stderr, options.onStderr),
  ]).then(([exitCode, stdout, stderr]) => ({ exitCode, stdout, stderr }));
  return { child, ended };
}

async function readText(
  stream: ReadableStream<Uint8Array>,
  onText: (text: string) => void = () => undefined,
): Promise<string> {
  let text = '';
  for await (const chunk of stream) {
    const more = new TextDecoder().decode(chunk);
    text += more;
    onText(more);
  }
  return text;
}

async function balanceOf(space: string, hash: string): Promise<number> {
  const { json } = await running.client(space).roots('?limit=200');
  return json.items.find((item: { hash: string }) => item.hash === hash)?.refCount ?? 0;
}

function makePlan(seed: number): DirectoryPlan {
  const many = (count: number, size: number, from: number) =>
    directory(Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, file(size, from + i)])));
  return directory({
    small: many(120, 300, seed),
    more: directory({ deep: many(60, 5_000, seed + 1_000) }),
    big: file(6_000_000, seed),
  });
}

/** Every upload that the server acknowledged, by node; none may be there twice. */
function countRepeats(): { readonly distinct: number; readonly repeated: string[] } {
  const seen = new Map<string, number>();
  for (const { kind, status, hash } of proxy.passed) {
    if (kind === 'upload' && status === 200) seen.set(hash, (seen.get(hash) ?? 0) + 1);
  }
  return { distinct: seen.size, repeated: [...seen].filter(([, times]) => times > 1).map(([hash]) => hash) };
}

/** Runs a push and kills it when `isTime` says so of a request that passes; whether it came to that. */
async function killWhen(
  path: string,
  space: string,
  isTime: (kind: string, moment: 'asked' | 'answered') => boolean,
): Promise<boolean> {
  const push = startPush(path, space, { args: ['--root-ref'] });
  let isKilled = false;
  proxy.onRequest = (kind, moment) => {
    if (isKilled || !isTime(kind, moment)) return;
    isKilled = true;
    push.child.kill('SIGKILL');
  };
  await push.ended;
  proxy.onRequest = undefined;
  return isKilled;
}

describe('kill -9', () => {
  test(`at ${KILLS} random requests, then one clean run`, async () => {
    const random = makeRandom(7);
    const path = join(folder.path, 'killed');
    const plan = makePlan(1);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    proxy.forget();
    for (let kills = 0; kills < KILLS; kills += 1) {
      let left = 1 + random.below(30);
      expect(await killWhen(path, 'killed', () => --left === 0)).toBe(true);
    }
    const last = await startPush(path, 'killed', { args: ['--root-ref'] }).ended;
    expect(last).toMatchObject({ exitCode: 0, stdout: `${root}\n` });
    const { distinct, repeated } = countRepeats();
    expect(repeated).toEqual([]);
    expect(distinct).toBe(tree.nodes.size);
    expect(await balanceOf('killed', root)).toBe(1);
    // A later run finds that the tree has its root ref, and says so.
    const later = await startPush(path, 'killed', { args: ['--root-ref'] }).ended;
    expect([later.exitCode, later.stderr]).toEqual([0, expect.stringContaining('none was added')]);
    expect(await balanceOf('killed', root)).toBe(1);
    // One that was taken away is given again.
    await running.client('killed').commit('take-away', { [root]: -1 });
    expect((await startPush(path, 'killed', { args: ['--root-ref'] }).ended).exitCode).toBe(0);
    expect(await balanceOf('killed', root)).toBe(1);
  }, 300_000);

  test('with chunks of a large file on their way in packs: those that arrived are not sent again', async () => {
    const path = join(folder.path, 'in-packs');
    const plan = file(40_000_000, 3);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    proxy.offersBulk = true;
    try {
      let packs = 0;
      const isSecond = (kind: string, moment: string): boolean =>
        kind === 'pack-lease' && moment === 'answered' && ++packs === 2;
      expect(await killWhen(path, 'in-packs', isSecond)).toBe(true);
      const { nodeCount } = await running.client('in-packs').usage();
      expect(nodeCount).toBeGreaterThan(1);
      proxy.forget();
      const last = await startPush(path, 'in-packs', { args: ['--root-ref', '--json', '--quiet'] }).ended;
      expect(last).toMatchObject({ exitCode: 0, stderr: '' });
      const { root: pushedRoot, uploadedNodes } = JSON.parse(last.stdout);
      expect(pushedRoot).toBe(root);
      expect(uploadedNodes).toBeLessThanOrEqual(tree.nodes.size - nodeCount);
      expect(proxy.passed.filter(({ kind }) => kind === 'upload')).toEqual([]);
      expect(await balanceOf('in-packs', root)).toBe(1);
    } finally {
      proxy.offersBulk = false;
    }
  }, 300_000);

  test.each(['asked', 'answered'] as const)(
    'when the commit is %s leaves exactly one root ref',
    async (moment) => {
      const path = join(folder.path, `commit-${moment}`);
      const plan = directory({ f: file(10, moment.length) });
      writePlan(path, plan);
      const { root } = await buildPlan(plan);
      for (let kills = 0; kills < 3; kills += 1) {
        const isTime = (kind: string, now: string): boolean => kind === 'commit' && now === moment;
        expect(await killWhen(path, moment, isTime)).toBe(true);
      }
      expect((await startPush(path, moment, { args: ['--root-ref'] }).ended).exitCode).toBe(0);
      expect(await balanceOf(moment, root)).toBe(1);
    },
  );

  test('with the commit sent and the tree changed since: the first tree has one root ref, and is named', async () => {
    const path = join(folder.path, 'changed');
    const before = directory({ f: file(10, 1) });
    writePlan(path, before);
    expect(
      await killWhen(path, 'changed', (kind, moment) => kind === 'commit' && moment === 'answered'),
    ).toBe(true);
    writeFileSync(join(path, 'g'), 'new');
    const { exitCode, stdout, stderr } = await startPush(path, 'changed', { args: ['--root-ref'] }).ended;
    expect(exitCode).toBe(0);
    const old = (await buildPlan(before)).root;
    expect(stderr).toContain(`holdfast refs update ${old}=-1`);
    expect(await balanceOf('changed', old)).toBe(1);
    expect(await balanceOf('changed', stdout.trim())).toBe(1);
  });
});

describe('a push goes on', () => {
  test('while the server is killed and started again', async () => {
    const path = join(folder.path, 'restart');
    const plan = makePlan(5_000);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    proxy.forget();
    const push = startPush(path, 'restart');
    for (let restarts = 0; restarts < 3; restarts += 1) {
      const goal = proxy.passed.length + 60;
      while (proxy.passed.length < goal && push.child.exitCode === null) await Bun.sleep(5);
      await running.restart('SIGKILL');
      proxy.setTarget(running.server.url);
    }
    expect(await push.ended).toMatchObject({ exitCode: 0, stdout: `${root}\n` });
    const { distinct, repeated } = countRepeats();
    expect(repeated).toEqual([]);
    // An upload whose answer was lost in the kill was not counted.
    expect(distinct).toBeLessThanOrEqual(tree.nodes.size);
    expect(await running.client('restart').usage()).toMatchObject({
      nodeCount: tree.nodes.size,
      notReadyNodeCount: 0,
    });
  }, 300_000);

  test('through a network that hangs, resets and cuts', async () => {
    const path = join(folder.path, 'network');
    const plan = makePlan(9_000);
    writePlan(path, plan);
    const { root } = await buildPlan(plan);
    const proxy = await startTcpProxy({ port: running.server.port });
    const push = startPush(path, 'network', { url: `http://${proxy.address}` });
    const kinds = [
      { kind: 'reset' },
      { kind: 'cut', afterBytes: 700 },
      { kind: 'slow', bytesPerSecond: 200_000, delayMs: 20 },
      { kind: 'hang' },
    ] as const;
    for (const kind of kinds) {
      proxy.setMode(kind);
      await Bun.sleep(700);
      // A hang ends by the network breaking the connection for good, long before the client's own time limit.
      if (kind.kind === 'hang') proxy.setMode({ kind: 'reset' });
      proxy.setMode({ kind: 'pass' });
      await Bun.sleep(200);
    }
    expect(await push.ended).toMatchObject({ exitCode: 0, stdout: `${root}\n` });
    await proxy.close();
  }, 300_000);

  test('after the server was away for longer than a push stays silent about', async () => {
    const path = join(folder.path, 'away');
    writePlan(path, makePlan(21_000));
    proxy.setTarget('http://127.0.0.1:1');
    const { exitCode, stderr } = await startPush(path, 'away', {
      args: ['--json'],
      onStderr: (text) => {
        if (text.includes('"type":"stall"')) proxy.setTarget(running.server.url);
      },
    }).ended;
    expect(exitCode).toBe(0);
    const said = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const stall = said.find(({ type }) => type === 'stall');
    expect(stall?.cause).toContain('trying again');
    expect(said.map(({ type }) => type)).toContain('resumed');
    expect(said.at(-1)?.type).toBe('done');
  }, 300_000);

  test('after its token expired, with a new one', async () => {
    const path = join(folder.path, 'expired');
    const plan = makePlan(13_000);
    writePlan(path, plan);
    const { root } = await buildPlan(plan);
    proxy.forget();
    const now = Math.floor(Date.now() / 1000);
    // Within the tolerance of clocks for a few seconds more.
    const exp = now - CLOCK_TOLERANCE_SECONDS + 5;
    const token = running.issuer.token('expired', { iat: now - 60, exp });
    const overAt = (exp + CLOCK_TOLERANCE_SECONDS + 1) * 1000;
    let asked = 0;
    proxy.onRequest = () => {
      asked += 1;
      return asked > 40 ? Bun.sleep(Math.max(0, overAt - Date.now())) : undefined;
    };
    const first = await startPush(path, 'expired', { token }).ended;
    proxy.onRequest = undefined;
    expect(first.exitCode).toBe(1);
    expect(first.stdout).toBe('');
    expect(first.stderr).toContain('expired');
    expect(first.stderr).toContain('run the same command again');
    const { exitCode, stdout } = await startPush(path, 'expired').ended;
    expect([exitCode, stdout]).toEqual([0, `${root}\n`]);
    expect(countRepeats().repeated).toEqual([]);
  }, 300_000);

  test('after Ctrl-C, which says so', async () => {
    const path = join(folder.path, 'interrupted');
    writePlan(path, makePlan(17_000));
    const push = startPush(path, 'interrupted');
    proxy.onRequest = () => {
      proxy.onRequest = undefined;
      push.child.kill('SIGINT');
    };
    const { stdout, stderr } = await push.ended;
    expect([push.child.signalCode, stdout]).toEqual(['SIGINT', '']);
    expect(stderr.trimEnd().split('\n').at(-1)).toBe(
      'holdfast: interrupted; uploaded nodes are kept under their lease; run the same command again: it continues where it stopped',
    );
    expect((await startPush(path, 'interrupted').ended).exitCode).toBe(0);
  });
});

describe('pushes of one folder at the same time', () => {
  test('all succeed, and the tree has its root ref', async () => {
    const path = join(folder.path, 'together');
    const plan = makePlan(25_000);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    const pushes = Array.from(
      { length: 3 },
      () => startPush(path, 'together', { args: ['--root-ref'] }).ended,
    );
    for (const { exitCode, stdout } of await Promise.all(pushes)) {
      expect([exitCode, stdout]).toEqual([0, `${root}\n`]);
    }
    // Pushes that looked at the same time each added one.
    expect([1, 2, 3]).toContain(await balanceOf('together', root));
    expect(await running.client('together').usage()).toMatchObject({
      nodeCount: tree.nodes.size,
      notReadyNodeCount: 0,
    });
  });

  test('leave no commit open when one of them is killed', async () => {
    const path = join(folder.path, 'one-killed');
    const plan = directory({ f: file(10, 9) });
    writePlan(path, plan);
    const { root } = await buildPlan(plan);
    let answered = 0;
    let second: Push | undefined;
    // The first is held before its commit until the second has been killed at its own, committed but not answered.
    proxy.onRequest = async (kind, moment) => {
      if (kind !== 'commit') return;
      if (moment === 'answered') {
        answered += 1;
        second?.child.kill('SIGKILL');
      } else if (second === undefined) {
        second = startPush(path, 'one-killed', { args: ['--root-ref'] });
        await second.ended;
      }
    };
    const first = startPush(path, 'one-killed', { args: ['--root-ref'] });
    await first.ended;
    proxy.onRequest = undefined;
    expect(answered).toBe(2);
    expect((await first.ended).exitCode).toBe(0);
    expect((await startPush(path, 'one-killed', { args: ['--root-ref'] }).ended).exitCode).toBe(0);
    expect(await balanceOf('one-killed', root)).toBe(2);
  });
});
