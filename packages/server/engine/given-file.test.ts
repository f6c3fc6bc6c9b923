import { expect, test } from 'bun:test';
import { chmodSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { readPlainFile, readSecret } from './given-file.ts';

test('a file that a setting names is read within a bound, and no pipe or device is waited for', async () => {
  const folder = makeTempFolder('given-file');
  try {
    const at = (name: string): string => join(folder.path, name);
    writeFileSync(at('file'), 'words');
    writeFileSync(at('long'), '');
    truncateSync(at('long'), 4 * 1024 * 1024 + 1);
    Bun.spawnSync(['mkfifo', '-m', '600', at('pipe')]);
    for (const read of [readPlainFile, readSecret]) {
      chmodSync(at('file'), 0o600);
      chmodSync(at('long'), 0o600);
      expect(await read('the file', at('file'))).toBe('words');
      expect(await read('the file', at('none'))).toBeUndefined();
      expect(String(await read('the file', at('long')).catch(String))).toContain(
        'has more than 4194304 bytes',
      );
      for (const path of [at('pipe'), '/dev/zero', folder.path]) {
        expect(String(await read('the file', path).catch(String))).toContain(`the file ${path} is no file`);
      }
    }
    chmodSync(at('file'), 0o644);
    expect(String(await readSecret('the file', at('file')).catch(String))).toContain('others can use it');
  } finally {
    folder.remove();
  }
});
