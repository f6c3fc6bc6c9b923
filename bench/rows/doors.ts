/** Doors against what people have for the same today, on one disk: the same program does the same work through each. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, interleave, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { findFreePort, type ServerProcess, startServer } from '../child-process.ts';
import { APP, cliCommand, type EnteredSpace, type Holdfast, startHoldfast } from '../holdfast.ts';
import { startNginx } from '../peers/nginx.ts';
import { type CommandRun, runCommand } from '../trees/run-command.ts';
import { makeLargeFile, makeManyFiles } from '../trees/tree-input.ts';

const FILES = 10_000;
const LARGE_MIB = 1_024;
const SPACES = ['bench', ...Array.from({ length: 12 }, (_, round) => `target-${round}`)];

export const DOOR_WEBDAV_ROW: Row = {
  ...{ name: 'door-webdav', packages: ['rclone'], usual: { rounds: 2 } },
  run: (bench) => runUnpinned(bench, runWebdavRow),
};
export const DOOR_MOUNT_ROW: Row = {
  ...{ name: 'door-mount', packages: ['restic'], usual: { rounds: 3 } },
  run: (bench) => runUnpinned(bench, runMountRow),
};
export const DOOR_CACHE_ROW: Row = {
  ...{ name: 'door-cache', packages: ['nginx-light'], usual: { rounds: 3 } },
  run: (bench) => runUnpinned(bench, runCacheRow),
};
export const COPY_ROW: Row = {
  ...{ name: 'copy', packages: [], usual: { rounds: 3 } },
  run: (bench) => runUnpinned(bench, runCopyRow),
};

function atMost(bound: number, text: string): RowResult['target'] {
  return { figure: 'ratio', sense: 'at most', bound, text: `≤ ${bound} × ${text}` };
}

function environmentOf(server: EnteredSpace): Record<string, string> {
  return {
    HOLDFAST_URL: `http://127.0.0.1:${server.port}`,
    HOLDFAST_APP: APP,
    HOLDFAST_SPACE: server.spacePath.split('/').at(-1) ?? '',
    HOLDFAST_TOKEN: server.token,
  };
}

const run = (server: EnteredSpace, ...args: string[]): Promise<CommandRun> =>
  runCommand(cliCommand(args), { env: environmentOf(server) });

function start(
  bench: Bench,
  command: readonly string[],
  ready: RegExp | number,
  env = {},
): Promise<ServerProcess> {
  return startServer(command, {
    core: undefined,
    env,
    logFile: join(bench.folder, `${command.at(-1)?.replaceAll('/', '_').slice(-40)}.log`),
    ready: typeof ready === 'number' ? { port: ready } : { line: ready },
  });
}

async function startGateway(bench: Bench, server: Holdfast, ...args: string[]) {
  const command = cliCommand(['gateway', ...args, '--open', '--listen', '127.0.0.1:0']);
  const process = await start(bench, command, /^holdfast \w+ on /, environmentOf(server));
  return { process, url: process.lines[0]?.split(' ').at(-1) ?? '' };
}

async function runWebdavRow(bench: Bench): Promise<readonly RowResult[]> {
  const server = await startHoldfast(bench, { name: 'doors' });
  const ours = await startGateway(bench, server, 'webdav');
  const port = findFreePort();
  const peerFolder = join(bench.folder, 'rclone-served');
  mkdirSync(peerFolder);
  const serving = ['rclone', 'serve', 'webdav', peerFolder, '--addr', `127.0.0.1:${port}`];
  const peer = { process: await start(bench, serving, port), url: `http://127.0.0.1:${port}/` };
  const inputs = [
    { ...makeManyFiles(join(bench.folder, 'many'), bench.quick ? 60 : FILES), row: 'small', bound: 1.5 },
    { ...makeLargeFile(join(bench.folder, 'large'), bench.quick ? 8 : LARGE_MIB), row: 'large', bound: 1.3 },
  ];
  const results: RowResult[] = [];
  try {
    for (const { folder, row, bound, files } of inputs) {
      const both = (side: typeof ours) => async (round: number) => {
        const name = `${row}-${round}`;
        await fetch(`${side.url}${name}`, { method: 'MKCOL' });
        const env = {
          RCLONE_CONFIG: '/dev/null',
          RCLONE_WEBDAV_VENDOR: 'other',
          RCLONE_WEBDAV_URL: side.url,
        };
        const into = await runCommand(['rclone', 'copy', folder, `:webdav:${name}`], { env });
        const target = join(bench.folder, `${name}-${side === ours ? 'ours' : 'peer'}`);
        const out = await runCommand(['rclone', 'copy', `:webdav:${name}`, target], { env });
        await runCommand(['diff', '-r', folder, target]);
        const [intoS, outS] = [into.elapsedMs / 1000, out.elapsedMs / 1000];
        bench.record(`${JSON.stringify({ done: true, side: target, intoS, outS })}\n`);
        return { intoS, outS };
      };
      const { a, b } = await interleave(bench, both(ours), both(peer));
      for (const step of ['into', 'out'] as const) {
        const side = (label: string, all: typeof a) => ({
          ...{ label, unit: 's', values: all.map((each) => each[`${step}S`]) },
        });
        results.push({
          row: `door-webdav-${row}-${step}`,
          workload: `rclone copies ${files} files ${step === 'into' ? 'in' : 'out'}`,
          target: atMost(bound, 'rclone serve webdav of a local folder'),
          ours: side('gateway webdav', a),
          peer: side('rclone serve webdav', b),
          notes: ['ours commits each answer durably; rclone’s server fsyncs nothing'],
        });
      }
    }
  } finally {
    for (const each of [ours.process, peer.process, server])
      await ('stop' in each ? each.stop() : each.close());
  }
  return results;
}

async function runMountRow(bench: Bench): Promise<readonly RowResult[]> {
  if (!existsSync('/dev/fuse')) throw new Error('there is no /dev/fuse.');
  const server = await startHoldfast(bench, { name: 'mounts' });
  const input = makeManyFiles(join(bench.folder, 'mounted'), bench.quick ? 60 : FILES);
  const env = {
    RESTIC_PASSWORD: 'bench',
    RESTIC_REPOSITORY: join(bench.folder, 'restic'),
    RESTIC_CACHE_DIR: join(bench.folder, 'restic-cache'),
  };
  let count = 0;
  /** Each round mounts anew, so that the kernel knows nothing. */
  const use = async (command: readonly string[], ready: RegExp, environment: object, below: string) => {
    const folder = join(bench.folder, `mount-${++count}`);
    mkdirSync(folder);
    const mount = await start(bench, [...command, folder], ready, environment);
    try {
      const find = await runCommand(['find', `${folder}/${below}`, '-type', 'f', '-size', '+1k']);
      const copied = join(bench.folder, `copied-${count}`);
      const copy = await runCommand(['cp', '-a', `${folder}/${below}`, copied]);
      return { findS: find.elapsedMs / 1000, copyS: copy.elapsedMs / 1000 };
    } finally {
      await mount.stop();
      Bun.spawnSync(['umount', '-l', folder], { stderr: 'ignore' });
    }
  };
  try {
    await run(server, 'push', input.folder, '--name', 'tree', '--mtime');
    await runCommand(['restic', 'init', '--quiet'], { env });
    await runCommand(['restic', 'backup', '--quiet', input.folder], { env });
    const pulls: number[] = [];
    const { a, b } = await interleave(
      bench,
      async (round) => {
        const pull = await run(server, 'pull', 'tree', join(bench.folder, `pulled-${round}`));
        if (round > 0) pulls.push(pull.elapsedMs / 1000);
        return use(cliCommand(['mount', 'tree']), /^holdfast mounted/, environmentOf(server), '.');
      },
      () => use(['restic', 'mount'], /Now serving/, env, 'snapshots/latest/.'),
    );
    const side = (label: string, values: readonly number[]) => ({ label, unit: 's', values });
    const workload = `${input.files} files, each time mounted anew`;
    const copies = side(
      'mount',
      a.map(({ copyS }) => copyS),
    );
    return [
      {
        ...{ row: 'door-mount-find', workload: `find: ${workload}`, target: atMost(0.5, 'restic mount') },
        ours: side(
          'mount',
          a.map(({ findS }) => findS),
        ),
        peer: side(
          'restic mount',
          b.map(({ findS }) => findS),
        ),
        notes: [],
      },
      {
        ...{ row: 'door-mount-cp', workload: `cp -a: ${workload}`, target: atMost(1, 'restic mount') },
        ours: copies,
        peer: side(
          'restic mount',
          b.map(({ copyS }) => copyS),
        ),
        notes: ['after find, on both sides'],
      },
      {
        ...{ row: 'door-mount-cp-pull', workload: `cp -a: ${workload}`, target: atMost(1.5, 'pull') },
        ours: copies,
        peer: side('pull', pulls),
        notes: [],
      },
    ];
  } finally {
    await server.close();
  }
}

const CACHE_CLIENTS = 16;
const CACHE_KEYS = 10_000;
const CACHE_BYTES = 4_096;

async function runCacheRow(bench: Bench): Promise<readonly RowResult[]> {
  const server = await startHoldfast(bench, { name: 'caches' });
  const ours = await startGateway(bench, server, 'cache');
  const nginx = await startNginx(bench, new Map(), { isWritable: true });
  const keys = bench.quick ? 64 : CACHE_KEYS;
  const all = async (url: string, method: 'PUT' | 'GET', round: number): Promise<number> => {
    const startedAt = performance.now();
    let next = 0;
    const client = async (): Promise<void> => {
      for (let key = next++; key < keys; key = next++) {
        const body = Buffer.alloc(CACHE_BYTES, `${round}/${key} `);
        const answer = await fetch(`${url}k${round}-${key}`, {
          method,
          ...(method === 'PUT' ? { body } : {}),
        });
        const bytes = (await answer.arrayBuffer()).byteLength;
        if (!answer.ok || (method === 'GET' && bytes !== CACHE_BYTES))
          throw new Error(`${method}: ${answer.status}`);
      }
    };
    await Promise.all(Array.from({ length: CACHE_CLIENTS }, client));
    return keys / ((performance.now() - startedAt) / 1000);
  };
  try {
    const both = (url: string) => async (round: number) => {
      const rates = { PUT: await all(url, 'PUT', round), GET: await all(url, 'GET', round) };
      bench.record(`${JSON.stringify({ done: true, url, ...rates })}\n`);
      return rates;
    };
    const { a, b } = await interleave(bench, both(ours.url), both(`http://127.0.0.1:${nginx.port}/`));
    return (['PUT', 'GET'] as const).map((method) => {
      const bound = method === 'PUT' ? 0.5 : 0.4;
      return {
        row: `door-cache-${method.toLowerCase()}`,
        workload: `${keys} ${method} of 4 KiB by ${CACHE_CLIENTS} clients`,
        target: { ...{ figure: 'ratio', sense: 'at least', bound }, text: `≥ ${bound} × nginx` } as const,
        ours: { label: 'gateway cache', unit: '/s', values: a.map((rates) => rates[method]) },
        peer: { label: 'nginx dav_methods', unit: '/s', values: b.map((rates) => rates[method]) },
        notes: ['ours commits each answer durably; nginx fsyncs nothing'],
      };
    });
  } finally {
    for (const each of [ours.process, nginx.process]) await each.stop();
    await server.close();
  }
}

async function runCopyRow(bench: Bench): Promise<readonly RowResult[]> {
  const server = await startHoldfast(bench, { name: 'copies', spaces: SPACES });
  const input = makeManyFiles(join(bench.folder, 'copied'), bench.quick ? 60 : FILES);
  const home = join(bench.folder, 'home');
  rmSync(home, { recursive: true, force: true });
  const again: number[] = [];
  const copyTo = async (target: EnteredSpace) => {
    const { HOLDFAST_TOKEN, ...place } = environmentOf(target);
    const login = ['login', 'target', '--no-check', '--token-file', join(bench.folder, 'token')];
    writeFileSync(join(bench.folder, 'token'), HOLDFAST_TOKEN ?? '', { mode: 0o600 });
    await runCommand(cliCommand(login), { env: { ...place, XDG_CONFIG_HOME: home } });
    const env = { ...environmentOf(server), XDG_CONFIG_HOME: home };
    return runCommand(cliCommand(['copy', '--all', '--to', 'target', '--json']), { env });
  };
  try {
    await run(server, 'push', input.folder, '--name', 'tree');
    const { a, b } = await interleave(
      bench,
      async (round) => {
        const target = server.spaces[round + 1];
        if (target === undefined) throw new Error('there are more rounds than Spaces.');
        const first = await copyTo(target);
        again.push(JSON.parse((await copyTo(target)).stdout).requests);
        return first.elapsedMs / 1000;
      },
      async (round) =>
        (await run(server, 'pull', 'tree', join(bench.folder, `copy-pulled-${round}`))).elapsedMs / 1000,
    );
    const workload = `${input.files} files to another Space of the server`;
    return [
      {
        ...{ row: 'copy-first', workload, target: atMost(1.3, 'pull'), notes: [] },
        ours: { label: 'copy', unit: 's', values: a },
        peer: { label: 'pull', unit: 's', values: b },
      },
      {
        ...{ row: 'copy-again', workload: 'requests of a second copy of one name', notes: [] },
        target: { ...{ figure: 'value', sense: 'at most', bound: 5 }, text: '≤ 5 a name' } as const,
        ours: { label: 'copy', unit: 'requests', values: [Math.max(...again)] },
        peer: undefined,
      },
    ];
  } finally {
    await server.close();
  }
}
