/** A process that has ended does not run, even if its parent never reads its exit code. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { until } from '../../test/support/until.ts';
import { isProcessRunning } from './process-running.ts';

test('a process that has ended does not run, though its parent does not notice', async () => {
  // The shell becomes a program that never waits for its children.
  const parent = Bun.spawn(['sh', '-c', 'sh -c "echo \\$\\$" & exec sleep 600'], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  try {
    const { value } = await parent.stdout.getReader().read();
    const pid = Number(Buffer.from(value ?? []).toString());
    await until(() => / Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1')));
    expect([isProcessRunning(parent.pid), isProcessRunning(pid)]).toEqual([true, false]);
  } finally {
    parent.kill('SIGKILL');
  }
  await parent.exited;
  expect(isProcessRunning(parent.pid)).toBe(false);
}, 60_000);
