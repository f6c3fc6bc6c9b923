/**
 * Nobody reads the pipes of a server's log and audit log any more: the server answers, ends when it is told to, and counts the
 * lost lines.
 */
import { afterAll, expect, test } from 'bun:test';
import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('stuck-readers');
const started: Bun.Subprocess[] = [];
afterAll(() => {
  for (const child of started) child.kill('SIGKILL');
  folder.remove();
});

/** A pipe. `end` is what a child gets: a description that waits, as a shell makes it. */
function makePipe(name: string) {
  const path = join(folder.path, name);
  expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);
  const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const end = openSync(path, constants.O_WRONLY);
  let text = '';
  const tryTo = (work: () => number): number => {
    try {
      return work();
    } catch (error) {
      if ((error as { code?: unknown }).code === 'EAGAIN') return 0;
      throw error;
    }
  };
  const buffer = Buffer.alloc(64 * 1024);
  return {
    end,
    /** everything that was written so far */
    read(): string {
      for (;;) {
        const bytes = tryTo(() => readSync(both, buffer));
        if (bytes === 0) return text;
        text += buffer.toString('utf8', 0, bytes);
      }
    },
    /** to the last byte */
    fill(): void {
      for (const size of [4096, 1]) {
        const filling = Buffer.alloc(size, '#');
        while (tryTo(() => writeSync(both, filling)) > 0);
      }
    },
    waits: () => !/^flags:\s+\d*[4-7]\d{3}$/m.test(readFileSync(`/proc/self/fdinfo/${end}`, 'utf8')),
    close(): void {
      closeSync(both);
      closeSync(end);
    },
  };
}

for (const workers of [1, 2]) {
  test(
    `nobody reads stdout and stderr of ${workers} serving processes`,
    async () => {
      const data = join(folder.path, `data-${workers}`);
      const issuer = makeIssuer(`https://stuck-${workers}.test`);
      await addApp(data, 'app', issuer);
      const [stdout, stderr] = [makePipe(`out-${workers}`), makePipe(`err-${workers}`)];
      stderr.fill();
      const child = Bun.spawn(
        [
          ...[HOLDFAST, 'serve', '--data', data, '--listen', '127.0.0.1:0', '--workers', String(workers)],
          ...['--operator-listen', '127.0.0.1:0', '--audit-log', '-', '--audit-reads'],
        ],
        { stdin: 'ignore', stdout: stdout.end, stderr: stderr.end },
      );
      started.push(child);
      await until(() => /^operators: \S+\n/m.test(stdout.read()));
      const [, url = '', operators = ''] =
        /^holdfast listening on (\S+)\noperators: (\S+)\n/.exec(stdout.read()) ?? [];
      stdout.fill();
      const client = makeSpaceClient(url, 'app', 'space', issuer.token('space'));
      const nodes = Array.from({ length: 20 }, (_, index) => makeNode(`node ${index}`));
      for (const node of nodes) await client.store(node);
      for (const node of nodes) expect((await client.metadata(node.hash)).status).toBe(200);
      expect((await fetch(`${operators}/livez`)).status).toBe(200);
      expect(await (await fetch(`${operators}/metrics`)).text()).toMatch(
        /^holdfast_log_lines_dropped_total 0$/m,
      );
      // Those who share the pipes find them as they were.
      expect([stdout.waits(), stderr.waits()]).toEqual([true, true]);
      child.kill('SIGTERM');
      expect(await child.exited).toBe(0);
      for (const pipe of [stdout, stderr]) pipe.close();
    },
    TEST_MS_MAX,
  );
}

test(
  'a log that is not read holds a bounded number of lines, then counts, and says how many are missing',
  async () => {
    const pipe = makePipe('bounded');
    const script = `
      import { openLog } from ${JSON.stringify(join(import.meta.dir, '../packages/server/log.ts'))};
      let dropped = 0;
      const log = openLog('info', {}, (lines) => { dropped += lines; });
      for (let n = 0; n < 4000; n += 1) log.info({ ['n' + n]: 'x'.repeat(1000) }, 'line');
      process.on('SIGTERM', () => { log.info({ dropped }, 'last'); process.exit(dropped > 0 ? 0 : 1); });
      console.log('said');
      setInterval(() => undefined, 1000);
    `;
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: pipe.end });
    started.push(child);
    // It has said everything though nobody reads.
    const reader = child.stdout.getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('said\n');
    await until(() => pipe.read().includes('lines of the log are missing here'));
    child.kill('SIGTERM');
    await until(() => pipe.read().includes('"msg":"last"'));
    expect(await child.exited).toBe(0);
    const lines = pipe
      .read()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const written = lines.filter(({ msg }) => msg === 'line').length;
    const [gap, more] = lines.filter(({ msg }) => msg.startsWith('lines of the log are missing'));
    expect([written + gap.dropped, more]).toEqual([4000, undefined]);
    expect(written).toBeGreaterThan(1000);
    expect(lines.at(-1)).toMatchObject({ msg: 'last', dropped: gap.dropped });
    pipe.close();
  },
  TEST_MS_MAX,
);
