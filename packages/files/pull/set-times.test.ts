/** Times that were set are known again, on Bun and on Node, which sets them less exactly. */
import { afterAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';

const folder = makeTempFolder('set-times', { fast: true });
afterAll(() => folder.remove());

/** Prints what it finds after each time that it sets: whether it is known again, and how far off it is. */
const PROGRAM = `
import { lstatSync } from 'node:fs';
import { isTime, setTimes } from './set-times.js';
const path = Buffer.from(process.argv[2]);
for (const text of process.argv.slice(3)) {
  const mtimeNs = BigInt(text);
  setTimes(path, mtimeNs);
  const found = lstatSync(path, { bigint: true }).mtimeNs;
  const known = isTime(found, mtimeNs) && !isTime(found + 2_000_000n, mtimeNs) && !isTime(found - 2_000_000n, mtimeNs);
  console.log(JSON.stringify({ known, off: Number(found - mtimeNs) }));
}
`;
const TIMES = [
  '981173106123456789',
  '1700000000999999999',
  '4102444800000000001',
  '-1500000000',
  '-157766399999999999',
];

test.each([
  [process.execPath, 0],
  ['node', 1_999],
])('%s', async (runtime, offMax) => {
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, 'set-times.ts')],
    outdir: folder.path,
    target: 'node',
  });
  expect(built.success).toBe(true);
  const program = join(folder.path, 'program.mjs');
  writeFileSync(program, PROGRAM);
  const touched = join(folder.path, 'touched');
  writeFileSync(touched, '');
  const ran = Bun.spawnSync([runtime, program, touched, ...TIMES]);
  expect(ran.stderr.toString()).not.toContain('Error');
  const lines = ran.stdout
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(TIMES.length);
  for (const { known, off } of lines) {
    expect(known).toBe(true);
    expect(Math.abs(off)).toBeLessThanOrEqual(offMax);
  }
});
