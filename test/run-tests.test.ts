/**
 * The runner behind `npm test`: files run side by side, each is shown in one piece, and the end says again what failed, where a
 * log that is cut still has it.
 */
import { expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const BUN = join(ROOT, 'node_modules', '.bin', 'bun');

const PLANTED = `
import { expect, test } from 'bun:test';
const say = (by) => console.error('said by ' + by);
test('is good', () => say('a good test'));
test('is bad', () => {
  say('a bad test');
  expect('this').toBe('that');
});
test('is slow', () => Bun.sleep(1000), 20);
test('is good as well', () => say('another good test'));
`;

type Check = readonly [string, string, string[]];

/** The runner over a folder of its own; both outputs come by one pipe, as a log has them. */
function startIn(
  folder: string,
  options: { readonly checks?: readonly Check[]; readonly [name: string]: unknown } = {},
) {
  const given = JSON.stringify({ root: folder, bun: BUN, checks: [], filters: [], cores: 2, ...options });
  const script = `import { runTests } from ${JSON.stringify(join(ROOT, 'tools', 'run-tests.mjs'))};
    process.exitCode = (await runTests(${given})) ? 0 : 1;`;
  return Bun.spawn(['sh', '-c', 'exec node --input-type=module -e "$SCRIPT" 2>&1'], {
    env: { ...process.env, SCRIPT: script },
    stdin: 'ignore',
    stdout: 'pipe',
  });
}

async function runIn(
  ...given: Parameters<typeof startIn>
): Promise<{ readonly exitCode: number; readonly lines: string[] }> {
  const child = startIn(...given);
  const [exitCode, text] = await Promise.all([child.exited, new Response(child.stdout).text()]);
  return { exitCode, lines: text.trimEnd().split('\n') };
}

/** A folder with these test files, for one test. */
async function withFiles(
  files: Readonly<Record<string, string>>,
  use: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = makeTempFolder('run-tests');
  try {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder.path, name)), { recursive: true });
      writeFileSync(join(folder.path, name), text);
    }
    await use(folder.path);
  } finally {
    folder.remove();
  }
}

test('a failure is shown as it happens, and again before the last lines', async () => {
  const folder = makeTempFolder('run-tests');
  try {
    mkdirSync(join(folder.path, 'inner'));
    writeFileSync(join(folder.path, 'inner', 'bad.test.ts'), PLANTED);
    writeFileSync(join(folder.path, 'dies.test.ts'), `console.error('last words'); process.exit(3);`);
    writeFileSync(
      join(folder.path, 'good.test.ts'),
      `import { test } from 'bun:test'; test('is fine', () => {});`,
    );
    const { exitCode, lines } = await runIn(folder.path, {
      checks: [
        ['a good check', 'sh', ['-c', 'echo nothing found']],
        ['a bad check', 'sh', ['-c', 'echo found something >&2; exit 2']],
        ['a check that is not there', join(folder.path, 'absent'), []],
      ],
    });
    expect(exitCode).toBe(1);
    expect(lines.slice(-3)).toEqual([
      'not good: a bad check, a check that is not there, dies.test.ts, inner/bad.test.ts',
      '',
      '4 passed, 5 failed',
    ]);
    const againAt = lines.indexOf('== again: a bad check');
    const live = lines.slice(0, againAt).join('\n');
    const again = lines.slice(againAt).join('\n');
    for (const once of [
      'nothing found',
      'said by a good test',
      'said by another good test',
      '(pass) is fine',
    ]) {
      expect(live).toContain(once);
      expect(again).not.toContain(once);
    }
    const twice = [
      'found something',
      'last words',
      'said by a bad test',
      'Expected: "that"',
      '(fail) is bad',
    ];
    for (const said of [...twice, '(fail) is slow', 'timed out after 20ms']) {
      expect(live).toContain(said);
      expect(again).toContain(said);
    }
    for (const end of ['ended with status 2', 'ended with status 3', 'absent did not run'])
      expect(again).toContain(end);
  } finally {
    folder.remove();
  }
}, 300_000);

test('a run in which all is good ends with its count alone', async () => {
  const folder = makeTempFolder('run-tests');
  try {
    writeFileSync(
      join(folder.path, 'good.test.ts'),
      `import { test } from 'bun:test'; test('is fine', () => {});`,
    );
    const { exitCode, lines } = await runIn(folder.path);
    expect(exitCode).toBe(0);
    expect(lines.slice(-1)).toEqual(['1 passed, 0 failed']);
    expect(lines.join('\n')).not.toMatch(/not good|again/);
  } finally {
    folder.remove();
  }
}, 300_000);

/** A test that tells `say`, in a file that all of them share, when it begins and ends, and waits until it holds `until`. */
function makeTalker(name: string, until: string): string {
  return `
    import { appendFileSync, readFileSync } from 'node:fs';
    import { test } from 'bun:test';
    const said = () => readFileSync('said', 'utf8');
    test('talks', async () => {
      console.log('${name} begins');
      appendFileSync('said', '${name} begins,');
      while (!said().includes('${until}')) await Bun.sleep(5);
      console.log('${name} ends');
      appendFileSync('said', '${name} ends,');
    });`;
}

test('files run side by side, and each is shown in one piece', async () => {
  const files = {
    said: '',
    'a.test.ts': makeTalker('a', 'b begins'),
    'b.test.ts': makeTalker('b', 'a begins'),
  };
  await withFiles(files, async (folder) => {
    const { exitCode, lines } = await runIn(folder, { tasksMax: 2 });
    expect(exitCode).toBe(0);
    const pieces = lines.filter((line) => /^== .*test.ts$|begins$|ends$/.test(line)).join();
    const [a, b] = ['a', 'b'].map((name) => `== ${name}.test.ts,${name} begins,${name} ends`);
    expect([`${a},${b}`, `${b},${a}`]).toContain(pieces);
  });
}, 300_000);

test('a file that asks to be alone runs alone, and so does every file if there is one place', async () => {
  const files = {
    said: '',
    'a.test.ts': `// test-run: alone\n${makeTalker('a', 'a begins')}`,
    'b.test.ts': makeTalker('b', 'c begins'),
    'c.test.ts': makeTalker('c', 'b begins'),
  };
  await withFiles(files, async (folder) => {
    expect((await runIn(folder, { tasksMax: 3 })).exitCode).toBe(0);
    expect(readFileSync(join(folder, 'said'), 'utf8').slice(-'a begins,a ends,'.length)).toBe(
      'a begins,a ends,',
    );
    for (const name of ['a', 'b', 'c'])
      writeFileSync(join(folder, `${name}.test.ts`), makeTalker(name, `${name} begins`));
    writeFileSync(join(folder, 'said'), '');
    expect((await runIn(folder, { tasksMax: 1 })).exitCode).toBe(0);
    expect(readFileSync(join(folder, 'said'), 'utf8')).toBe(
      'a begins,a ends,b begins,b ends,c begins,c ends,',
    );
  });
}, 300_000);

/** A file that needs the shared PostgreSQL, one that does not, and what is run to keep that PostgreSQL. */
function makeEngineFiles(keeper: string): Record<string, string> {
  return {
    said: '',
    'a.test.ts': `import './test/support/postgres-server.ts';\n${makeTalker('a', 'a begins')}`,
    'b.test.ts': makeTalker('b', 'b begins'),
    'test/support/postgres-server.ts': 'console.log(process.env.ENGINE);',
    'test/support/shared-engines.ts': keeper,
  };
}

test('an engine starts while files run that need none', async () => {
  const keeper = `
    import { readFileSync } from 'node:fs';
    while (!readFileSync('said', 'utf8').includes('b ends')) await Bun.sleep(5);
    console.log(JSON.stringify({ ENGINE: 'is at hand' }));
    await Bun.stdin.text();`;
  await withFiles(makeEngineFiles(keeper), async (folder) => {
    // Even with one place: a file that waits for an engine does not take it.
    const { exitCode, lines } = await runIn(folder, { tasksMax: 1 });
    expect([exitCode, lines.at(-1)]).toEqual([0, '2 passed, 0 failed']);
    expect(lines).toContain('is at hand');
  });
}, 300_000);

test('an engine that does not start fails the files that need it, and no other', async () => {
  await withFiles(makeEngineFiles(`console.error('no room'); process.exit(1);`), async (folder) => {
    const { exitCode, lines } = await runIn(folder);
    expect([exitCode, lines.at(-1)]).toEqual([1, '1 passed, 1 failed']);
    const again = lines.slice(lines.indexOf('== again: a.test.ts'));
    expect(again.slice(1, 3)).toEqual(['holdfast: the shared postgres did not start:', 'no room']);
  });
}, 300_000);

test('the quick run leaves out what opens a store, a socket or a process, itself or through imports', async () => {
  const fine = `import { test } from 'bun:test'; test('is fine', () => {});`;
  const files = {
    'spawns.test.ts': `${fine}\nexport const start = () => Bun.spawn(['true']);`,
    'stores.test.ts': `import './code/store.ts';\n${fine}`,
    'by-door.test.ts': `import { open } from '@holdfast/code/internal';\n${fine}\nvoid open;`,
    'typed.test.ts': `import type { Database } from 'bun:sqlite';\n${fine}\nexport type Store = Database;`,
    'address.test.ts': `import { isIP } from 'node:net';\n${fine}\nisIP('');`,
    'code/store.ts': `import { Database } from 'bun:sqlite'; export const open = () => new Database();`,
    'packages/code/internal.ts': `export * from '../../code/store.ts';`,
    'test/new.test.ts': fine,
  };
  await withFiles(files, async (folder) => {
    mkdirSync(join(folder, 'tools'));
    const times = { 'address.test.ts': [60, 1], 'spawns.test.ts': [60, 1] };
    writeFileSync(join(folder, 'tools', 'test-times.json'), JSON.stringify(times));
    const { exitCode, lines } = await runIn(folder, { isQuick: true, remembers: true });
    expect(exitCode).toBe(0);
    const ran = lines.filter((line) => /^== \S+.test.ts$/.test(line)).sort();
    expect(ran).toEqual(['== address.test.ts', '== test/new.test.ts', '== typed.test.ts']);
    // The times of what ran are written, and those of what did not run stay.
    const written = JSON.parse(readFileSync(join(folder, 'tools', 'test-times.json'), 'utf8'));
    expect(Object.keys(written)).toEqual([...Object.keys(times), 'test/new.test.ts', 'typed.test.ts'].sort());
    expect(written['spawns.test.ts']).toEqual([60, 1]);
    expect(written['address.test.ts'][0]).toBeLessThan(60);
  });
}, 300_000);

test('short files share a process; failed ones are named, and one that died costs the others another run', async () => {
  const fine = `import { test } from 'bun:test'; test('is fine, in ' + process.pid, () => {});`;
  const files = {
    'bad.test.ts': PLANTED,
    'fine.test.ts': fine,
    'skips.test.ts': `import { test } from 'bun:test'; test.skip('is left out', () => {});`,
    'too.test.ts': fine,
    'long.test.ts': fine,
  };
  await withFiles(files, async (folder) => {
    mkdirSync(join(folder, 'tools'));
    const times = Object.keys(files).map((name) => [name, name === 'long.test.ts' ? [60, 1] : [1, 1]]);
    writeFileSync(join(folder, 'tools', 'test-times.json'), JSON.stringify(Object.fromEntries(times)));
    const { lines } = await runIn(folder);
    expect(lines).toContain('== bad.test.ts and 3 more');
    expect(lines.slice(-3)).toEqual([
      'not good: bad.test.ts, skips.test.ts',
      '',
      '5 passed, 2 failed, 1 skipped',
    ]);
    const processes = lines.map((line) => /is fine, in (\d+)/.exec(line)?.[1]).filter((pid) => pid);
    expect([processes.length, new Set(processes).size]).toEqual([3, 2]);
    writeFileSync(join(folder, 'skips.test.ts'), 'process.exit(0);');
    const { exitCode, lines: died } = await runIn(folder);
    expect([exitCode, died.at(-3)]).toEqual([1, 'not good: bad.test.ts, skips.test.ts']);
    const flaky = died.filter((line) => line.startsWith('flaky: '));
    expect(flaky).toEqual(['flaky: fine.test.ts', 'flaky: too.test.ts']);
  });
}, 300_000);

/** Fails in the first process that runs it, and passes in the next. */
const FAILS_ONCE = `
import { expect, test } from 'bun:test';
import { existsSync, writeFileSync } from 'node:fs';
test('fails once', () => {
  const isFirst = !existsSync('./seen');
  writeFileSync('./seen', '');
  expect(isFirst).toBe(false);
});
test('is fine', () => {});`;

test('a file that fails is run once more, alone, and passes as flaky if it is good then', async () => {
  await withFiles({ 'once.test.ts': FAILS_ONCE }, async (folder) => {
    const { exitCode, lines } = await runIn(folder);
    expect(lines.slice(-1)).toEqual(['2 passed, 0 failed']);
    expect(lines).toContain('flaky: once.test.ts');
    expect(lines.join('\n')).not.toContain('not good');
    expect(exitCode).toBe(0);
  });
  // Files that share a process are run once more one by one, and the others keep their counts.
  const fine = `import { test } from 'bun:test'; test('is fine', () => {});`;
  const bad = `import { expect, test } from 'bun:test'; test('is bad', () => expect(1).toBe(2));`;
  await withFiles({ 'a/1.test.ts': fine, 'a/2.test.ts': FAILS_ONCE, 'a/3.test.ts': bad }, async (folder) => {
    const { exitCode, lines } = await runIn(folder);
    expect(lines.slice(-3)).toEqual(['not good: a/3.test.ts', '', '3 passed, 1 failed']);
    expect(lines).toContain('flaky: a/2.test.ts');
    expect(exitCode).toBe(1);
  });
  // A run of one file shows how it fails.
  await withFiles({ 'once.test.ts': FAILS_ONCE }, async (folder) => {
    const { exitCode, lines } = await runIn(folder, { filters: ['once'] });
    expect(lines.slice(-1)).toEqual(['1 passed, 1 failed']);
    expect(exitCode).toBe(1);
  });
}, 300_000);

test('a skipped test, a file that hangs and an unknown word fail the run', async () => {
  const files = {
    'skips.test.ts': `import { test } from 'bun:test'; test.skip('is left out', () => {});`,
    'hangs.test.ts': `import { test } from 'bun:test'; test('hangs', () => new Promise(() => setInterval(() => {}, 9)), 99999);`,
  };
  await withFiles(files, async (folder) => {
    const { exitCode, lines } = await runIn(folder, { fileTimeoutMs: 10_000 });
    expect(exitCode).toBe(1);
    expect(lines.slice(-3)).toEqual([
      'not good: hangs.test.ts, skips.test.ts',
      '',
      '0 passed, 1 failed, 1 skipped',
    ]);
    expect(lines.slice(lines.indexOf('== again: hangs.test.ts')).join()).toContain('killed after 10 s');
    writeFileSync(join(folder, 'odd.test.ts'), '// test-run: last\n');
    const odd = await runIn(folder);
    expect(odd.exitCode).not.toBe(0);
    expect(odd.lines.join('\n')).toContain('odd.test.ts: "// test-run:" knows alone, not last');
  });
}, 300_000);

test('a signal ends the run with all that was started', async () => {
  const starter = `
    import { writeFileSync } from 'node:fs';
    import { test } from 'bun:test';
    test('starts', async () => {
      // A shell that ignores the signal.
      const child = Bun.spawn(['sh', '-c', 'trap "" INT TERM; while :; do sleep 0.1; done'], { stdout: 'inherit' });
      writeFileSync('pid', String(child.pid));
      await child.exited;
    }, 99999);`;
  await withFiles(
    { 'starts.test.ts': starter, 'also.test.ts': starter.replace("'pid'", "'also'") },
    async (folder) => {
      const run = startIn(folder);
      const text = new Response(run.stdout).text();
      const read = (name: string): number => {
        const path = join(folder, name);
        return existsSync(path) ? Number(readFileSync(path, 'utf8')) : 0;
      };
      await until(() => read('pid') > 0 && read('also') > 0);
      run.kill('SIGINT');
      expect(await run.exited).toBe(130);
      expect(await text).toContain('SIGINT: ending');
      const isThere = (pid: number): boolean => {
        try {
          return process.kill(pid, 0);
        } catch {
          return false;
        }
      };
      await until(() => !isThere(read('pid')) && !isThere(read('also')));
    },
  );
}, 300_000);
