// The test files of a run, what each says about how it wants to run, and the times that were written down of earlier runs.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const SKIPPED_FOLDERS = new Set(['node_modules', '.git', 'dist', 'holdfast-data']);
/** A line of its own above the imports of a test file. */
const ORDER = /^\/\/ test-run: (.+)$/m;
const ORDER_WORDS = new Set(['alone']);
const FIRST_IMPORT = /^import /m;
/** From the root of what is tested: file or check → seconds it takes, and seconds of CPU in it. */
const TIMES_PATH = join('tools', 'test-times.json');
/** Nothing takes no time. */
const WRITTEN_SECONDS_MIN = 0.1;

/** @returns {string[]} paths from `root` */
export function findTestFiles(root, folder = root) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : findTestFiles(root, path);
    return entry.name.endsWith('.test.ts') ? [relative(root, path)] : [];
  });
}

/** The wish of a test file: `alone` asks for the machine to itself. */
export function readOrder(root, file) {
  const text = readFileSync(join(root, file), 'utf8').split(FIRST_IMPORT, 1)[0];
  const words =
    ORDER.exec(text)?.[1]
      .trim()
      .split(/[\s,]+/) ?? [];
  for (const word of words) {
    if (!ORDER_WORDS.has(word))
      throw new Error(`${file}: "// test-run:" knows ${[...ORDER_WORDS].join(' and ')}, not ${word}`);
  }
  return { isAlone: words.includes('alone') };
}

/** @returns {Map<string, {ms: number, cpuMs: number}>} by file or check */
export function readTimes(root) {
  const path = join(root, TIMES_PATH);
  if (!existsSync(path)) return new Map();
  return new Map(
    Object.entries(JSON.parse(readFileSync(path, 'utf8'))).map(([name, [seconds, cpuSeconds]]) => [
      name,
      { ms: seconds * 1000, cpuMs: cpuSeconds * 1000 },
    ]),
  );
}

/** Writes down what ran, over what was there of the same name; what is no longer there goes. */
export function writeTimes(root, measured, names) {
  const all = [...readTimes(root)].filter(([name]) => names.includes(name));
  const times = new Map([...all, ...measured]);
  const toSeconds = (ms) => Math.max(WRITTEN_SECONDS_MIN, Math.round(ms / 100) / 10);
  const lines = [...times]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { ms, cpuMs }]) => `  ${JSON.stringify(name)}: [${toSeconds(ms)}, ${toSeconds(cpuMs)}]`);
  writeFileSync(join(root, TIMES_PATH), `{\n${lines.join(',\n')}\n}\n`);
}
