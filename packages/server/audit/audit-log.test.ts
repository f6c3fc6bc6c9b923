import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../../test/support/until.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { type AuditEvent, formatLine } from './audit-event.ts';
import { AuditLog, type AuditOptions } from './audit-log.ts';
import type { SinkReport } from './audit-sink.ts';

const CHANGE: AuditEvent = { operation: 'leaseNode', app: 'a', space: 's', status: 200, bytes: 1, ms: 2 };
const REFUSAL: AuditEvent = { operation: 'getUsage', status: 401, error: 'invalid_token', verified: false };

let folder: string;
const open: AuditLog[] = [];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-audit-'));
});
afterAll(async () => {
  await Promise.all(open.map((log) => log.close()));
  rmSync(folder, { recursive: true, force: true });
});

interface World {
  readonly log: AuditLog;
  readonly path: string;
  readonly reports: SinkReport[];
  lines(): Record<string, unknown>[];
}

let files = 0;
async function openLog(options: Partial<AuditOptions> & { readonly path?: string } = {}): Promise<World> {
  files += 1;
  const path = options.path ?? join(folder, `${files}.log`);
  const reports: SinkReport[] = [];
  const log = await AuditLog.open(
    { target: { kind: 'file', path }, withReads: false, isRequired: false, ...options },
    (report) => reports.push(report),
  );
  open.push(log);
  return { log, path, reports, lines: () => linesOf(path) };
}

function linesOf(path: string): Record<string, unknown>[] {
  const text = readFileSync(path, 'utf8');
  expect(text === '' || text.endsWith('\n')).toBe(true);
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function lostLines(): number {
  return METRICS.snapshot().holdfast_audit_lost_lines_total?.get('') as number;
}

function makeFifo(): string {
  files += 1;
  const path = join(folder, `${files}.fifo`);
  expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);
  return path;
}

describe('a line', () => {
  test('has the documented fields in their order, absent ones left out, and cut strings', () => {
    const text = formatLine({
      ms: 3,
      time: '2026-01-02T03:04:05.006Z',
      operation: 'leaseNode',
      sub: 'é'.repeat(300),
      status: 200,
      error: undefined,
    });
    expect(text).toBe(
      `{"time":"2026-01-02T03:04:05.006Z","operation":"leaseNode","sub":"${'é'.repeat(256)}","status":200,"ms":3}\n`,
    );
  });

  test('is one line and one write whatever a caller puts into its claims', () => {
    const wild = '\u0000\n"\ud83d\ude00'.repeat(200);
    const text = formatLine({
      time: 't',
      operation: 'x',
      app: wild,
      space: wild,
      iss: wild,
      sub: wild,
      jti: wild,
      kid: wild,
    });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4096);
    expect(text.indexOf('\n')).toBe(text.length - 1);
    expect(JSON.parse(text).sub.isWellFormed()).toBe(true);
  });
});

describe('the file', () => {
  test('belongs to its owner alone, even if it existed before', async () => {
    const { path } = await openLog();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const old = join(folder, 'old.log');
    writeFileSync(old, '{"time":"before"}\n');
    chmodSync(old, 0o644);
    const { log } = await openLog({ path: old });
    log.note(CHANGE, 'change');
    expect(await log.written()).toBe(true);
    expect(statSync(old).mode & 0o777).toBe(0o600);
    expect(linesOf(old)).toMatchObject([{ time: 'before' }, { operation: 'leaseNode' }]);
  });

  test('every change has a line, in order, and the newest are in memory', async () => {
    const { log, lines } = await openLog();
    for (let index = 0; index < 2000; index += 1) log.note({ ...CHANGE, bytes: index }, 'change');
    await until(() => lines().length === 2000);
    expect(lines().map(({ bytes }) => bytes)).toEqual(Array.from({ length: 2000 }, (_, index) => index));
    expect(log.recent(2).map(({ bytes }) => bytes)).toEqual([1999, 1998]);
    expect(log.recent(5000)).toHaveLength(1000);
  });

  test.each(['renamed', 'deleted', 'told'] as const)('is opened again by its name: %s', async (how) => {
    const { log, path, lines } = await openLog();
    log.note(CHANGE, 'change');
    expect(await log.written()).toBe(true);
    if (how === 'deleted') rmSync(path);
    else renameSync(path, `${path}.1`);
    if (how === 'told') log.reopen();
    log.note({ ...CHANGE, bytes: 7 }, 'change');
    expect(await log.written()).toBe(true);
    expect(lines()).toMatchObject([{ bytes: 7 }]);
    if (how !== 'deleted') expect(linesOf(`${path}.1`)).toMatchObject([{ bytes: 1 }]);
  });

  test('that can never be written is refused at the start, with the reason', async () => {
    await expect(openLog({ path: join(folder, 'missing', 'x.log') })).rejects.toThrow(
      /ENOENT.*folder must exist/,
    );
    await expect(openLog({ path: folder })).rejects.toThrow('EISDIR');
    symlinkSync('loop', join(folder, 'loop'));
    await expect(openLog({ path: join(folder, 'loop') })).rejects.toThrow(/ELOOP.*leads to itself/);
    const server = Bun.listen({ unix: join(folder, 'socket'), socket: { data: () => {} } });
    await expect(openLog({ path: join(folder, 'socket') })).rejects.toThrow('it is a socket');
    server.stop(true);
  });
});

describe('repeats', () => {
  test('of a refusal are counted: the sum over the lines is exact', async () => {
    const { log, lines } = await openLog();
    for (let index = 0; index < 500; index += 1) log.note({ ...REFUSAL, ms: index }, 'counted');
    const count = (): number => lines().reduce((sum, line) => sum + ((line.repeats as number) ?? 1), 0);
    await until(() => count() === 500);
    expect(lines()).toHaveLength(2);
    expect(lines()[0]).not.toHaveProperty('repeats');
    expect(lines()[1]).toMatchObject({ repeats: 499, verified: false });
  });

  test('of names that unproven callers make up take a bounded number of lines, and each refusal is counted', async () => {
    const { log, lines } = await openLog();
    for (let index = 0; index < 5000; index += 1)
      log.note({ ...REFUSAL, jti: `made-up-${index}` }, 'counted');
    const count = (): number => lines().reduce((sum, line) => sum + ((line.repeats as number) ?? 1), 0);
    await until(() => count() === 5000);
    // A hundred in each window of time that a slow machine takes: without the bound it were 5,000.
    expect(lines().length).toBeLessThan(2000);
  });
});

describe('a file that takes no lines', () => {
  test('a full disk loses lines, says so, and goes on when there is room', async () => {
    const link = join(folder, 'link.log');
    Bun.spawnSync(['ln', '-s', '/dev/full', link]);
    const before = lostLines();
    const { log, reports } = await openLog({ path: link });
    log.note(CHANGE, 'change');
    expect(await log.written()).toBe(false);
    expect(log.failure).toContain('ENOSPC');
    expect(log.refusesChanges).toBe(false);
    expect(lostLines() - before).toBe(1);
    expect(METRICS.snapshot().holdfast_audit_failing).toEqual(new Map([['', 1]]));
    rmSync(link);
    await until(() => log.failure === undefined);
    log.note({ ...CHANGE, bytes: 9 }, 'change');
    expect(await log.written()).toBe(true);
    expect(linesOf(link)).toMatchObject([{ operation: 'audit.lost', repeats: 1 }, { bytes: 9 }]);
    expect(reports.map(({ kind }) => kind)).toEqual(['failing', 'recovered']);
    expect(METRICS.snapshot().holdfast_audit_failing).toEqual(new Map([['', 0]]));
  });

  test('a FIFO without a reader fails at once, and works when one comes', async () => {
    const path = makeFifo();
    const { log } = await openLog({ path, isRequired: true });
    expect(log.failure).toContain('nobody reads');
    expect(log.refusesChanges).toBe(true);
    log.note(CHANGE, 'change');
    expect(await log.written()).toBe(false);
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      await until(() => log.failure === undefined);
      log.note({ ...CHANGE, bytes: 5 }, 'change');
      expect(await log.written()).toBe(true);
      const bytes = Buffer.alloc(65_536);
      const text = bytes.toString('utf8', 0, readSync(reader, bytes));
      expect(
        text
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line)),
      ).toMatchObject([{ operation: 'audit.lost', repeats: 1 }, { bytes: 5 }]);
    } finally {
      closeSync(reader);
    }
  });

  test('a reader that does not read loses lines and holds nobody up', async () => {
    const path = makeFifo();
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const before = lostLines();
      const { log } = await openLog({ path });
      for (let index = 0; index < 20_000; index += 1) log.note({ ...CHANGE, bytes: index }, 'change');
      await until(() => log.failure !== undefined && lostLines() > before);
    } finally {
      closeSync(reader);
    }
    expect(existsSync(path)).toBe(true);
  });
});
