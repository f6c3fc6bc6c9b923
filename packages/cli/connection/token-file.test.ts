import { expect, test } from 'bun:test';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliError } from '../cli-error.ts';
import { rereadToken } from './token-file.ts';

test('a token file that is being written anew is empty for a moment: the job goes on with the token it has', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-token-'));
  try {
    const file = join(folder, 'token');
    let now = 0;
    const read = rereadToken(file, 'first', () => now);
    const readLater = (content: string): string => {
      writeFileSync(file, content, { mode: 0o600 });
      now += 1_001;
      return read();
    };
    expect(readLater('')).toBe('first');
    expect(readLater('\n')).toBe('first');
    expect(readLater('second\n')).toBe('second');
    expect(readLater('')).toBe('second');
    writeFileSync(file, 'third');
    expect(read()).toBe('second');
    expect(read('another')).toBe('second');
    expect(read('second')).toBe('third');
    chmodSync(file, 0o640);
    expect(() => read('third')).toThrow(/others can use it \(mode 640\)/);
    rmSync(file);
    now += 1_001;
    expect(read).toThrow(CliError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
