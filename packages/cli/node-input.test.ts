import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { readLines } from './node-input.ts';

test('lines are given one by one, whatever pieces a file comes in, and one without an end is refused', async () => {
  const folder = makeTempFolder('lines');
  try {
    const file = `${folder.path}/lines`;
    const long = 'x'.repeat(200_000);
    const lines = ['a', '', long, 'ä', 'last'];
    const linesOf = async (path: string) => {
      const read: string[] = [];
      await readLines(path, (line) => read.push(new TextDecoder().decode(line)));
      return read;
    };
    writeFileSync(file, lines.join('\n'));
    expect(await linesOf(file)).toEqual(lines);
    writeFileSync(file, `${lines.join('\n')}\n`);
    expect(await linesOf(file)).toEqual(lines);
    expect(String(await linesOf('/dev/zero').catch(String))).toContain('has more than 1048576 bytes');
  } finally {
    folder.remove();
  }
});
