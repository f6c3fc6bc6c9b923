/** The real disk. */
import { expect, test } from 'bun:test';
import { diskFiles } from './files.ts';

test('a file and a folder that the system cannot make durable are refused', async () => {
  const file = await diskFiles.openToRead('/dev/null');
  try {
    expect(await codeOf(file.sync())).toBe('EINVAL');
  } finally {
    await file.close();
  }
  expect(await codeOf(diskFiles.syncFolder('/proc'))).toBe('EINVAL');
});

const codeOf = (work: Promise<void>): Promise<unknown> =>
  work.then(
    () => 'durable',
    (error: { code?: unknown }) => error.code,
  );
