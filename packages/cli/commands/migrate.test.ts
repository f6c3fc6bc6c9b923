/** `holdfast migrate` as a process: files that hold a place. */
import { afterAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const place = new Workplace();
afterAll(() => place.remove());

test('a file with a password is a secret: one that others can use is refused', async () => {
  const file = place.path('place.url');
  writeFileSync(file, 'postgres://u:sesame@127.0.0.1:1/d,s3://bucket', { mode: 0o644 });
  for (const flags of [
    ['--from-file', file, '--to', 'there'],
    ['--from', 'there', '--to-file', file],
  ]) {
    const { exitCode, stdout, stderr } = await place.run('migrate', ...flags);
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/others can use it \(mode 644\)/);
    expect(stderr).not.toContain('sesame');
  }
});

test('a file without a password may be read by anyone', async () => {
  const file = place.path('folder');
  writeFileSync(file, place.path('nothing-here'), { mode: 0o644 });
  const { exitCode, stderr } = await place.run('migrate', '--from-file', file, '--to', place.path('there'));
  expect(exitCode).toBe(1);
  expect(stderr).not.toContain('others can use it');
});
