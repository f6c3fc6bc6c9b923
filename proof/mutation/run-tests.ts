/** Runs test files on a copy of the sources. */

/** Only ends what hangs: a guard may be what ends a loop. */
const TESTS_MS_MAX = 300_000;

/** Whether the test files pass, one after the other. The first test that fails ends the run. */
export async function runTests(
  root: string,
  tests: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const files = tests.map((test) => `./${test}`);
  const command = [process.execPath, 'test', ...files, '--bail', '--timeout', '300000'];
  const env = { ...process.env, ...environment };
  const child = Bun.spawn(command, { cwd: root, env, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' });
  const end = setTimeout(() => child.kill('SIGKILL'), TESTS_MS_MAX);
  try {
    return (await child.exited) === 0;
  } finally {
    clearTimeout(end);
  }
}
