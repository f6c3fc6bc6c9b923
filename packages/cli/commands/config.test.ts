/** `holdfast config check` as an operator runs it: nothing is made, no secret is shown, every problem is named. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { Workplace } from '../test/run-holdfast-fixture.ts';
import { CLIENT_VARIABLES } from '../variables.ts';

let place: Workplace;
beforeEach(() => {
  place = new Workplace();
});
afterEach(() => place.remove());

/** The runtime itself keeps a folder in its home. */
const entries = (): string[] => readdirSync(place.folder).filter((name) => name !== '.bun');

interface Report {
  readonly ok: boolean;
  readonly problems: readonly { readonly kind: string; readonly message: string }[];
  readonly found: readonly string[];
  readonly settings: Readonly<Record<string, unknown>> | null;
}

async function check(...args: readonly string[]): Promise<Report & { readonly exitCode: number }> {
  const { exitCode, stdout, stderr } = await place.run('config', 'check', '--json', ...args);
  expect(`${stdout}${stderr}`).not.toContain('hunter2');
  const report = JSON.parse(stdout) as Report;
  expect(stderr.split('\n').length).toBe(report.ok ? 1 : 2);
  return { ...report, exitCode };
}

describe('holdfast config check', () => {
  test('looks at the tokens of operators', async () => {
    writeFileSync(place.path('tokens'), 'alice hunter2\n', { mode: 0o600 });
    const flags = ['--operator-listen', '127.0.0.1:0', '--operator-token-file', place.path('tokens')];
    const report = await check(...flags);
    expect(report).toMatchObject({ exitCode: 2, problems: [{ kind: 'usage' }] });
    expect(report.problems[0]?.message).toContain('line 1: a token has 32');
  });

  test('says what a server would run with, and makes nothing', async () => {
    place.environment.HOLDFAST_WORKERS = '3';
    place.environment.HOLDFAST_TOKEN = 'hunter2';
    const report = await check(
      '--max-node-bytes',
      '32MiB',
      '--data',
      'there/below',
      '--online',
      '--listen',
      '127.0.0.1:0',
    );
    expect(report).toMatchObject({ exitCode: 0, ok: true, problems: [] });
    expect(report.settings).toMatchObject({
      listen: '127.0.0.1:0',
      data: 'there/below',
      metadata: 'SQLite in the data folder',
      maxNodeBytes: 33_554_432,
      workers: 3,
      uploadTtlMs: 300_000,
    });
    expect(entries()).toEqual([]);
    const said = await place.print('config', 'check');
    expect(said).toMatch(/^maxNodeBytes +67108864$/m);
    expect(said).toEndWith('the configuration is good\n');
    expect(entries()).toEqual([]);
  });

  test('names every wrong value and unknown variable at once, and what may have been meant', async () => {
    Object.assign(place.environment, {
      HOLDFAST_MAX_NODE_BYTE: '5',
      HOLDFAST_SOMETHING_ELSE: 'hunter2',
      HOLDFAST_LOG_LEVEL: 'loud',
      HOLDFAST_METADATA: 'postgres://u:hunter2@h/db',
    });
    const { exitCode, problems, settings } = await check('--workers', '0', '--content', 's3://b');
    const messages = problems.map(({ message }) => message);
    expect([exitCode, settings, new Set(problems.map(({ kind }) => kind))]).toEqual([
      2,
      null,
      new Set(['usage']),
    ]);
    expect(messages.toSorted()).toEqual([
      expect.stringContaining('--content names a bucket that cannot be'),
      expect.stringContaining('--workers "0"'),
      expect.stringContaining('HOLDFAST_LOG_LEVEL "loud"'),
      expect.stringMatching(/HOLDFAST_MAX_NODE_BYTE is unknown.*was HOLDFAST_MAX_NODE_BYTES meant\?/),
      expect.stringContaining('HOLDFAST_SOMETHING_ELSE is unknown'),
    ]);
    expect(await place.run('config', 'check', '--worker', '2')).toMatchObject({ exitCode: 2 });
  });

  test('an unknown variable alone is enough', async () => {
    place.environment.HOLDFAST_MIN_FRE = '1GiB';
    expect(await place.run('config', 'check')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('HOLDFAST_MIN_FRE is unknown'),
    });
  });

  test('a data folder that cannot be used or made is a failure, also without --online', async () => {
    writeFileSync(place.path('file'), '');
    for (const data of ['/proc/nope/x', '/sys/nope', 'file', 'file/below']) {
      const { exitCode, problems } = await check('--data', data);
      const problem = { kind: 'engine', message: expect.stringContaining(data) };
      expect({ data, exitCode, problems }).toEqual({ data, exitCode: 1, problems: [problem] });
    }
    expect(await check('--data', '/dev/shm/holdfast-is-never-made-here')).toMatchObject({ exitCode: 0 });
    expect(existsSync('/dev/shm/holdfast-is-never-made-here')).toBe(false);
  });

  test('knows the variables of traces: where they go, what is wrong, and what is not read', async () => {
    expect((await check()).found.join('\n')).not.toContain('traces');
    place.environment.OTEL_EXPORTER_OTLP_PROTOCOL = 'grpc';
    place.environment.OTEL_EXPORTER_OTLP_ENDPOIN = 'http://127.0.0.1:4318';
    expect((await check()).found).toEqual(
      expect.arrayContaining([
        expect.stringContaining('no traces are sent'),
        'the variable OTEL_EXPORTER_OTLP_ENDPOIN is not read: was OTEL_EXPORTER_OTLP_ENDPOINT meant?',
        'the variable OTEL_EXPORTER_OTLP_PROTOCOL is not read',
      ]),
    );
    place.environment.OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:4318';
    place.environment.OTEL_EXPORTER_OTLP_HEADERS = 'key=hunter2';
    const good = await check();
    expect(good.exitCode).toBe(0);
    expect(good.found).toContain('traces are sent to http://127.0.0.1:4318/v1/traces');
    place.environment.OTEL_TRACES_SAMPLER = 'sometimes';
    const { exitCode, problems } = await check();
    const message = expect.stringContaining('OTEL_TRACES_SAMPLER must be one of');
    expect([exitCode, problems]).toEqual([2, [{ kind: 'usage', message }]]);
  });

  test('online, engines that cannot be used are failures', async () => {
    Object.assign(place.environment, {
      HOLDFAST_METADATA: 'postgres://u:hunter2@127.0.0.1:1/db',
      AWS_ACCESS_KEY_ID: 'a',
      AWS_SECRET_ACCESS_KEY: 'hunter2',
    });
    const content = 's3://bucket?endpoint=http://127.0.0.1:1';
    expect(await check('--content', content)).toMatchObject({ exitCode: 0 });
    const { exitCode, problems } = await check('--content', content, '--online', '--listen', '127.0.0.1:0');
    expect(exitCode).toBe(1);
    expect(problems).toEqual([
      {
        kind: 'engine',
        message: expect.stringMatching(/^--metadata, database 127.*check that PostgreSQL runs/),
      },
      {
        kind: 'engine',
        message: expect.stringMatching(/^--content, bucket bucket.*check that it runs, and its address/),
      },
    ]);
  });

  test('online, a port that is taken, a folder that is a file and a database that is none are failures', async () => {
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen({ host: '127.0.0.1', port: 0 }, resolve));
    const { port } = listener.address() as { port: number };
    try {
      const { exitCode, problems } = await check('--online', '--listen', `127.0.0.1:${port}`);
      expect([exitCode, problems[0]?.message]).toEqual([1, expect.stringContaining('the port is taken')]);
    } finally {
      listener.close();
    }
    writeFileSync(place.path('file'), '');
    mkdirSync(place.path('damaged'));
    writeFileSync(place.path('damaged', 'holdfast.db'), 'no database at all'.repeat(999));
    for (const [data, message] of [
      ['file', 'is not a folder'],
      ['file/below', 'is not a folder'],
      ['damaged', 'holdfast.db cannot be read'],
    ] as const) {
      const { exitCode, problems } = await check('--online', '--listen', '127.0.0.1:0', '--data', data);
      expect([exitCode, problems[0]?.message]).toEqual([1, expect.stringContaining(message)]);
    }
    expect(readdirSync(place.path('damaged'))).toEqual(['holdfast.db']);
  });

  test('online beside the server that runs: its folder and port are no problem', async () => {
    const { HOLDFAST_URL: url = '' } = await place.serve();
    const before = readdirSync(place.path('holdfast-data'));
    const { exitCode, found } = await check('--online', '--listen', new URL(url).host);
    expect([exitCode, found.join('\n')]).toEqual([
      0,
      expect.stringMatching(/a server works on it.*is taken by a Holdfast server/s),
    ]);
    expect(readdirSync(place.path('holdfast-data'))).toEqual(before);
    expect(existsSync(place.path('holdfast-data', 'holdfast.db'))).toBe(true);
  });
});

test('every variable that the sources of the command line read is known', async () => {
  const named = new Set<string>();
  const sources = new Bun.Glob('{cli,server,files}/**/*.ts').scan(`${import.meta.dir}/../../../packages`);
  for await (const path of sources) {
    if (path.endsWith('.test.ts') || path.includes('/test/')) continue;
    const text = await Bun.file(`${import.meta.dir}/../../../packages/${path}`).text();
    for (const [, name = ''] of text.matchAll(/['"](HOLDFAST_[A-Z_]+)['"]|env\.(HOLDFAST_[A-Z_]+)/g))
      named.add(name);
  }
  const { listServeVariables } = await import('../../server/serve/variables.ts');
  const known = [...listServeVariables(), ...CLIENT_VARIABLES, ''];
  expect([...named].filter((name) => !known.includes(name))).toEqual([]);
  expect(named.size).toBeGreaterThan(CLIENT_VARIABLES.length);
});

test('every flag of serve can be given as a variable', async () => {
  const { stdout } = await place.run('serve', '--help');
  const flags = [...stdout.matchAll(/^ {2}(?:-h, )?--([a-z-]+)/gm)].map(([, flag = '']) => flag);
  const { listServeVariables } = await import('../../server/serve/variables.ts');
  const known = listServeVariables();
  const missing = flags.filter(
    (flag) => !known.includes(`HOLDFAST_${flag.toUpperCase().replaceAll('-', '_')}`),
  );
  expect(missing).toEqual(['help']);
});
