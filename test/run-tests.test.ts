/** The runner behind `npm test`: what failed is said once more at the end, where a log that is cut still has it. */
import { expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cutMiddle, findFailingOutput } from '../tools/failing-output.mjs';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

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

/** Runs the runner over a folder of its own. */
async function runIn(
  folder: string,
  checks: readonly [string, string, string[]][],
): Promise<{
  readonly exitCode: number;
  readonly lines: string[];
}> {
  const options = JSON.stringify({ root: folder, bun: BUN, checks, filters: [] });
  const script = `import { runTests } from ${JSON.stringify(join(ROOT, 'tools', 'run-tests.mjs'))};
    process.exitCode = (await runTests(${options})) ? 0 : 1;`;
  // Both outputs into one pipe, as a log has them.
  const child = Bun.spawn(['sh', '-c', 'exec node --input-type=module -e "$SCRIPT" 2>&1'], {
    env: { ...process.env, SCRIPT: script },
    stdin: 'ignore',
    stdout: 'pipe',
  });
  const [exitCode, text] = await Promise.all([child.exited, new Response(child.stdout).text()]);
  return { exitCode, lines: text.trimEnd().split('\n') };
}

test('what failed is said as it happens, and again before the last lines', async () => {
  const folder = makeTempFolder('run-tests');
  try {
    mkdirSync(join(folder.path, 'inner'));
    writeFileSync(join(folder.path, 'inner', 'bad.test.ts'), PLANTED);
    writeFileSync(join(folder.path, 'dies.test.ts'), `console.error('last words'); process.exit(3);`);
    writeFileSync(
      join(folder.path, 'good.test.ts'),
      `import { test } from 'bun:test'; test('is fine', () => {});`,
    );
    const { exitCode, lines } = await runIn(folder.path, [
      ['a good check', 'sh', ['-c', 'echo nothing found']],
      ['a bad check', 'sh', ['-c', 'echo found something >&2; exit 2']],
      ['a check that is not there', join(folder.path, 'absent'), []],
    ]);
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
}, 60_000);

test('a run in which all is good ends with its count alone', async () => {
  const folder = makeTempFolder('run-tests');
  try {
    writeFileSync(
      join(folder.path, 'good.test.ts'),
      `import { test } from 'bun:test'; test('is fine', () => {});`,
    );
    const { exitCode, lines } = await runIn(folder.path, []);
    expect(exitCode).toBe(0);
    expect(lines.slice(-1)).toEqual(['1 passed, 0 failed']);
    expect(lines.join('\n')).not.toMatch(/not good|again/);
  } finally {
    folder.remove();
  }
}, 60_000);

test('of an output, failed tests, uncaught errors and the end are found; colours and orders to the CI are not', () => {
  const unhandled = ['# Unhandled error between tests', '-'.repeat(31), 'error: nobody', '-'.repeat(31)];
  const output = [
    '::group::a.test.ts:',
    'noise',
    '(pass) one [0.10ms]',
    ...unhandled,
    'more noise',
    '(pass) two [0.10ms]',
    '\u001b[31merror: wrong\u001b[0m',
    '::error file=a.test.ts,line=4::error: wrong',
    '(fail) three [0.10ms]',
    '(fail) four [20.00ms]',
    '  ^ this test timed out after 20ms.',
    '(skip) five',
    'still noise',
    '(pass) six',
    ' 3 pass',
  ];
  expect(findFailingOutput(output.join('\n')).split('\n')).toEqual([
    ...unhandled,
    'error: wrong',
    '(fail) three [0.10ms]',
    '(fail) four [20.00ms]',
    '  ^ this test timed out after 20ms.',
    '(skip) five',
    ' 3 pass',
  ]);
});

test('of a text that is too long the beginning and the end stay', () => {
  const text = `${'a'.repeat(60)}${'b'.repeat(60)}`;
  expect(cutMiddle(text, 120)).toBe(text);
  expect(cutMiddle(text, 20)).toBe(`${'a'.repeat(10)}\n[… 100 characters left out …]\n${'b'.repeat(10)}`);
});
