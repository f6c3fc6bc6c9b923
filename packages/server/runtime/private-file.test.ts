/** Files that nothing but this process can reach: how they are written. */
import { afterEach, expect, spyOn, test } from 'bun:test';
import * as fs from 'node:fs';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { closePrivateFile, createPrivateFile, WRITTEN_AT_ONCE_BYTES, writeAll } from './private-file.ts';

const folder = makeTempFolder('private-file');
afterEach(() => folder.remove());

test('bytes are written where they belong, and never more of them at once than the system has memory for in one run', async () => {
  const bytes = new Uint8Array(3 * WRITTEN_AT_ONCE_BYTES + 5).map((_, index) => index % 251);
  const file = createPrivateFile(folder.path, bytes.length + 7);
  const write = spyOn(fs, 'write');
  try {
    await writeAll(file, bytes, 7);
    const lengths = (write.mock.calls as unknown[][]).map(([, , , length]) => Number(length));
    expect(lengths).toEqual([...Array.from({ length: 3 }, () => WRITTEN_AT_ONCE_BYTES), 5]);
    expect(Buffer.compare(fs.readFileSync(file.path).subarray(7), bytes)).toBe(0);
  } finally {
    write.mockRestore();
    closePrivateFile(file);
  }
});
