// test-run: alone
import { afterAll, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resultOf } from '../test/support/command-result.ts';
import type { Bench, RowResult } from './bench.ts';
import { createNodeSource } from './load/canonical-nodes.ts';
import { runLoader } from './load/loader.ts';
import { COUNTER_MARKER, type Flow, formatRequest, type LoadSpec } from './load/spec.ts';
import { hashAndWrite } from './peers/hash-and-write.ts';
import { hashOfNode } from './peers/pgbench.ts';
import { largeCommitScripts, smallCommitScripts } from './peers/pgbench-scripts.ts';
import { summarizeProfile } from './profile.ts';
import { formatReport, judge, type Report } from './report.ts';
import { formatNumber, median, pairRatios, quantile } from './stats.ts';
import { compareTools } from './trees/compare-tools.ts';
import { runCommand } from './trees/run-command.ts';
import { bytesToTouch } from './trees/touched-memory.ts';
import { makeLargeFile, makeManyFiles } from './trees/tree-input.ts';
import type { ToolRun, TreeTool } from './trees/tree-tool.ts';

const folder = mkdtempSync(join(tmpdir(), 'bench-test-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the smoke run', () => {
  // One row per kind of machinery: a peer in a process, a peer without one, a filled store. Debian's peers are not asked for.
  const rows = ['metadata', 'bulk-reads', 'commits', 'scale'];

  test('measures, judges and keeps its raw output', async () => {
    const out = join(folder, 'results');
    const report = await runQuick(out, rows);
    const names = report.verdicts.map((verdict) => verdict.result.row);
    expect(names).toEqual([
      'metadata',
      'bulk-read-4k',
      'commits-1',
      'commits-20',
      'commits-20-alone',
      'scale-usage',
      'scale-lease',
      'scale-page',
      'scale-gc',
    ]);
    for (const { result, figure, reached } of report.verdicts) {
      expect(result.ours.values.length).toBe(1);
      expect(result.ours.values[0]).toBeGreaterThan(0);
      expect(result.peer?.values[0]).toBeGreaterThan(0);
      const { sense = '', bound = Number.NaN } = result.target ?? {};
      expect(reached).toBe(sense === 'at least' ? figure >= bound : figure <= bound);
    }
    for (const row of rows) expect(readFileSync(join(out, `${row}.txt`), 'utf8')).toContain('"done":');
    expect(readFileSync(join(out, 'report.txt'), 'utf8')).toContain('commits-20');
  }, 300_000);

  test('pushes and pulls trees, counts the requests and watches the memory', async () => {
    const out = join(folder, 'tree-results');
    const report = await runQuick(out, ['push-tree', 'push-large']);
    const byName = new Map(report.verdicts.map((verdict) => [verdict.result.row, verdict]));
    for (const row of ['push-tree', 'push-real']) {
      for (const name of ['disk', 'server-memory']) {
        expect(byName.get(`${row}-${name}`)?.result.ours.values[0]).toBeGreaterThan(0);
      }
    }
    for (const row of ['push-tree', 'push-large']) {
      for (const step of ['first', 'unchanged', 'edited', 'pull']) {
        expect(byName.get(`${row}-${step}`)?.result.ours.values[0]).toBeGreaterThan(0);
      }
      for (const name of ['requests', 'push-memory', 'pull-memory']) {
        const { figure, reached } = byName.get(`${row}-${name}`) ?? {};
        expect(reached, `${row}-${name}: ${figure}`).toBe(true);
      }
      expect(byName.get(`${row}-push-memory`)?.figure).toBeGreaterThan(20);
      expect(readFileSync(join(out, `${row}.txt`), 'utf8')).toContain('"tool":"holdfast"');
    }
    expect(byName.get('push-tree-requests-unchanged')?.figure).toBe(1);
    expect(byName.get('push-tree-requests-edited')?.figure).toBeGreaterThan(1);
    expect(byName.get('push-large-bound')?.result.peer?.values[0]).toBeGreaterThan(0);
  }, 300_000);

  test('refuses a row that it does not have', async () => {
    const { exitCode, stderr } = await runMain(['--quick', '--only', 'nothing']);
    expect(stderr).toContain('No row is called nothing');
    expect(exitCode).not.toBe(0);
  }, 300_000);

  /** Throws unless every row was measured. */
  async function runQuick(out: string, only: readonly string[]): Promise<Report> {
    const args = ['--quick', '--json', '--out', out, '--only', ...only];
    const { exitCode, stdout, stderr } = await runMain(args);
    expect(exitCode, stderr).toBe(0);
    const report = JSON.parse(stdout) as Report;
    expect(report.notRun).toEqual([]);
    return report;
  }

  async function runMain(args: readonly string[]) {
    const command = [process.execPath, join(import.meta.dir, 'main.ts'), ...args];
    const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe' });
    return resultOf(child);
  }
});

describe('figures', () => {
  test('quantiles lie between neighbours', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(quantile([0, 10], 0.9)).toBe(9);
    expect(() => quantile([], 0.5)).toThrow(RangeError);
  });

  test('ratios are taken pair by pair', () => {
    expect(pairRatios([1, 4], [2, 2])).toEqual([0.5, 2]);
    expect(() => pairRatios([1], [1, 2])).toThrow(RangeError);
  });

  test('numbers keep three figures', () => {
    expect([12_345.6, 0.51234, 1.5, 0, 99.95].map(formatNumber)).toEqual([
      '12,300',
      '0.512',
      '1.5',
      '0',
      '100',
    ]);
  });

  const row = (sense: 'at least' | 'at most', bound: number, ours: number[], peer?: number[]): RowResult => ({
    row: 'r',
    workload: 'w',
    target: { figure: peer === undefined ? 'value' : 'ratio', sense, bound, text: 't' },
    ours: { label: 'a', unit: 'u', values: ours },
    peer: peer && { label: 'b', unit: 'u', values: peer },
    notes: [],
  });

  const machine: Report['machine'] = {
    cpu: '',
    cores: 2,
    memoryGiB: 1,
    kernel: '',
    bun: '',
    fileSystem: '',
    fsyncMs: 1,
    loadAverage: 0,
  };

  test('a target is judged by the median of the pairs, not by the ratio of the medians', () => {
    const verdict = judge(row('at least', 0.5, [1, 10, 100], [10, 10, 1000]));
    expect(verdict.figure).toBeCloseTo(0.1);
    expect(verdict.reached).toBe(false);
    expect(judge(row('at least', 0.5, [5], [10])).reached).toBe(true);
  });

  test('a value target has no peer', () => {
    expect(judge(row('at most', 120, [100, 130, 110])).reached).toBe(true);
    expect(judge(row('at most', 120, [121])).reached).toBe(false);
  });

  test('a comparison without a target is not judged, and shows all it is compared with', () => {
    const side = (label: string, values: number[]) => ({ label, unit: 's', values });
    const compared = {
      ...row('at most', 0, [2], [4]),
      target: undefined,
      others: [side('third', [1]), side('fourth', [8])],
    };
    const verdict = judge(compared);
    expect([verdict.figure, verdict.reached]).toEqual([0.5, undefined]);
    expect(verdict.others.map(({ ratios }) => ratios.median)).toEqual([2, 0.25]);
    const report = { commit: 'c', startedAt: 't', settings: {}, machine, packages: {}, notRun: [] };
    const text = formatReport({ ...report, verdicts: [verdict] });
    expect(text).toContain('SHOWN    r: w');
    expect(text).toContain('fourth 8 (8–8) s, ratio 0.25');
    expect(text).not.toContain('MISSED');
  });

  test('a missed target and a row not run both show', () => {
    const report = {
      commit: 'c',
      startedAt: 't',
      settings: {},
      machine,
      packages: {},
      verdicts: [judge(row('at most', 1, [2]))],
      notRun: [{ row: 'content', reason: 'not installed: nginx-light' }],
    };
    const text = formatReport(report);
    expect(text).toContain('MISSED');
    expect(text).toContain('NOT RUN  content: not installed: nginx-light');
  });

  test('a profile counts samples per function', () => {
    const frame = (functionName: string) => ({ functionName, url: '/a/b.ts', lineNumber: 0 });
    const profile = {
      nodes: [
        { id: 1, callFrame: frame('hot') },
        { id: 2, callFrame: frame('cold') },
      ],
      samples: [1, 1, 1, 2],
    };
    expect(summarizeProfile(profile).split('\n')).toEqual([' 75.0%  hot a/b.ts:1', ' 25.0%  cold a/b.ts:1']);
  });
});

describe('trees', () => {
  test('a command is asked what it used', async () => {
    // Until it has used so much, however little a busy machine gives it.
    const burn = `const held = new Uint8Array(64e6).fill(1);
      const end = Date.now() + 400;
      while (Date.now() < end || process.cpuUsage().user < 200_000);`;
    const run = await runCommand([process.execPath, '-e', burn]);
    expect(run.elapsedMs).toBeGreaterThan(400);
    expect(run.cpuMs).toBeGreaterThan(190);
    expect(run.peakMiB).toBeGreaterThan(61);
    await expect(
      runCommand([process.execPath, '-e', 'console.error("no"); process.exit(3)']),
    ).rejects.toThrow('ended with 3: no');
  });

  test('a change is small, and can be taken back', () => {
    const many = makeManyFiles(join(folder, 'many'), 30);
    const large = makeLargeFile(join(folder, 'large'), 2);
    for (const { folder: input, files, edit, reset } of [many, large]) {
      const before = readTree(input);
      expect(before.size).toBe(files);
      edit(1);
      const after = readTree(input);
      expect([...after].filter(([path, bytes]) => !bytes.equals(before.get(path) as Buffer)).length).toBe(1);
      reset();
      expect(readTree(input)).toEqual(before);
    }
    const bytes = [...readTree(many.folder).values()].reduce((sum, content) => sum + content.length, 0);
    expect(bytes).toBe(many.bytes);
  });

  function readTree(root: string): Map<string, Buffer> {
    const entries = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    const paths = entries.map(({ parentPath, name }) => join(parentPath, name)).sort();
    return new Map(paths.map((path) => [path, readFileSync(path)]));
  }

  test('the bound reads, hashes, writes and leaves nothing', () => {
    const [source, target] = [join(folder, 'bound-source'), join(folder, 'bound-target')];
    writeFileSync(source, new Uint8Array(5_000_000));
    const { hashMs, writeMs, bytes } = hashAndWrite(source, target);
    expect(bytes).toBe(5_000_000);
    expect(Math.min(hashMs, writeMs)).toBeGreaterThan(0);
    expect(existsSync(target)).toBe(false);
  });
});

describe('scripts of pgbench', () => {
  test('a commit of many sends its keys with every statement, as the server does', () => {
    const hashes = [1, 2, 3].map(hashOfNode);
    for (const [script, small] of largeCommitScripts(hashes).map((each, at) => [
      each,
      smallCommitScripts()[at],
    ])) {
      expect(script?.statements).toEqual(small?.statements ?? []);
      expect(script?.variables?.hashes).toBe(`{${hashes.map((hash) => `"\\\\x${hash}"`).join(',')}}`);
      expect(script?.variables?.domains).toBe('{bench,bench,bench}');
      // Once for each of the four statements that take keys.
      expect(script?.text.match(/:hashes\)/g)?.length).toBe(4);
      expect(script?.text).not.toMatch(/\$\d/);
      expect(script?.text.split('\n').filter((line) => line === 'COMMIT;').length).toBe(1);
    }
  });
});

describe('load', () => {
  test('a counted request declares the length it will have', () => {
    const request = formatRequest({ method: 'POST', path: '/p', body: `{"id":"${COUNTER_MARKER}"}` });
    const body = `{"id":"000000000007"}`;
    expect(request.before).toContain(`content-length: ${body.length}\r\n`);
    expect(request.before.endsWith('\r\n\r\n{"id":"')).toBe(true);
    expect(request.after).toBe('"}');
  });

  test('a node goes where its lease says, by a connection of its own, and counts when it is ready', async () => {
    const seen: string[] = [];
    const store = serve(async (request) => {
      const bytes = await request.bytes();
      const hash = new Bun.CryptoHasher('sha256').update(bytes).digest('hex');
      seen.push(
        `PUT ${new URL(request.url).pathname === `/${hash}`} ${request.headers.get('if-none-match')}`,
      );
      return new Response();
    });
    const leased = new Set<string>();
    const server = serve(async (request) => {
      const { pathname } = new URL(request.url);
      const hash = pathname.split('/').at(-2) ?? '';
      seen.push(`lease ${pathname.startsWith('/s')} ${request.headers.get('authorization')}`);
      const isReady = leased.has(hash);
      leased.add(hash);
      const upload = { url: `http://127.0.0.1:${store.port}/${hash}?x=1`, headers: { 'if-none-match': '*' } };
      return Response.json(isReady ? { state: 'ready' } : { state: 'awaiting_upload', upload });
    });
    const spaces = ['a', 'b'].map((token) => ({ token, spacePath: `/s${token}` }));
    const flow: Flow = { kind: 'put-nodes', spaces, contentBytes: 64 };
    const result = await runLoader({ ...loadOf(server.port, flow), stepsMax: 2 });
    expect([result.done, result.errors]).toEqual([2, {}]);
    const node = (token: string) => [
      `lease true Bearer ${token}`,
      'PUT true *',
      `lease true Bearer ${token}`,
    ];
    expect(seen).toEqual([...node('a'), ...node('b')]);
  });

  test('a node goes back to the server that its lease came from, which names itself as it was asked', async () => {
    const seen: string[] = [];
    const server = serve(async (request) => {
      const { pathname } = new URL(request.url);
      seen.push(`${request.method} ${pathname.startsWith('/uploads/')}`);
      if (request.method === 'PUT') return new Response();
      const upload = { url: `http://${request.headers.get('host')}/uploads/x`, headers: {} };
      return Response.json(seen.length > 1 ? { state: 'ready' } : { state: 'awaiting_upload', upload });
    });
    const flow: Flow = { kind: 'put-nodes', spaces: [{ token: 'a', spacePath: '/s' }], contentBytes: 64 };
    const result = await runLoader({ ...loadOf(server.port, flow), stepsMax: 1 });
    expect([result.done, result.errors]).toEqual([1, {}]);
    expect(seen).toEqual(['POST false', 'PUT true', 'POST false']);
  });

  test('an object is put to each place once, with the host that its URL is signed for', async () => {
    const seen: string[] = [];
    const store = serve(async (request) => {
      const { length } = await request.bytes();
      seen.push(`${request.headers.get('host')} ${new URL(request.url).pathname} ${length > 64}`);
      return new Response();
    });
    const targets = [1, 2].map((name) => ({ url: `http://localhost:${store.port}/${name}`, headers: {} }));
    const flow: Flow = { kind: 'put-objects', targets, contentBytes: 64 };
    const result = await runLoader(loadOf(store.port, flow));
    expect(result.errors).toEqual({ 'All 2 places to put to are used up.': 1 });
    expect(seen).toEqual([1, 2].map((name) => `localhost:${store.port} /${name} true`));
  });

  const servers: Bun.Server<unknown>[] = [];
  afterAll(() => Promise.all(servers.map((server) => server.stop(true))));

  function serve(answer: (request: Request) => Promise<Response>): { readonly port: number } {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer });
    servers.push(server);
    return { port: server.port ?? 0 };
  }

  function loadOf(port: number, flow: Flow): LoadSpec {
    return { port, connections: 1, seconds: 10, seed: 'test', flow };
  }

  test('nodes are canonical, distinct, and differ from run to run', () => {
    const next = createNodeSource(4096, 'one');
    const first = next();
    expect(first.hash).toBe(new Bun.CryptoHasher('sha256').update(first.bytes).digest('hex'));
    const hashes = new Set([first.hash, next().hash, createNodeSource(4096, 'two')().hash]);
    expect(hashes.size).toBe(3);
  });
});

describe('tools in turn', () => {
  test('the first tool of one round is the last of the next, at every step', async () => {
    const input = makeManyFiles(join(folder, 'turns'), 3);
    const order: string[] = [];
    const run: ToolRun = { elapsedMs: 1, cpuMs: 1, peakMiB: 1 };
    const note = async (what: string): Promise<ToolRun> => {
      order.push(what);
      return run;
    };
    const tool = (name: string): TreeTool => ({
      name,
      note: '',
      begin: async () => undefined,
      push: () => note(`${name} push`),
      pull: () => note(`${name} pull`),
      store: () => input.folder,
      end: async () => undefined,
    });
    const bench = { quick: true, record: () => undefined } as unknown as Bench;
    const { ours } = await compareTools(bench, { input, rounds: 2, tools: [tool('a'), tool('b')] });
    const round = (first: string, second: string): string[] =>
      ['push', 'push', 'push', 'pull'].flatMap((step) => [`${first} ${step}`, `${second} ${step}`]);
    expect(order).toEqual([...round('a', 'b'), ...round('b', 'a')]);
    expect(ours.pull).toHaveLength(2);
  });

  test('touch half of the memory that is free, and no more than 2 GiB', () => {
    expect(bytesToTouch('MemTotal: 9000 kB\nMemFree:      1000 kB\n')).toBe(512_000);
    expect(bytesToTouch('MemFree: 99999999 kB\n')).toBe(2 * 2 ** 30);
    expect(bytesToTouch('')).toBe(0);
  });
});
