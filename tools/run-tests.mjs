// The run behind `npm test`: the checks, then each test file in a process of its own. Output is shown as it comes, and what
// failed is shown once more at the end, because some places keep only the end of a log.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { cutMiddle, findFailingOutput } from './failing-output.mjs';
import { findNeededEngines, makeSharedEngines } from './shared-engines.mjs';
import { runShown } from './shown-run.mjs';

const SKIPPED_FOLDERS = new Set(['node_modules', '.git', 'dist', 'holdfast-data']);
/** One file may take so long; more means it hangs. */
const FILE_TIMEOUT_MS = 20 * 60 * 1000;
/** Only ends what hangs: many times what any test takes that does not ask for more. */
const TEST_TIMEOUT_MS = 120_000;
/** What is shown once more: of one file or check, and of all together. */
const SHOWN_AGAIN_CHARS_MAX = 8000;
const ALL_SHOWN_AGAIN_CHARS_MAX = 48_000;

function findTestFiles(root, folder = root) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : findTestFiles(root, path);
    return entry.name.endsWith('.test.ts') ? [relative(root, path)] : [];
  });
}

/** Counts from the JUnit report; a file that died before it could report is one failure. */
function readCounts(report, ok) {
  const suites = existsSync(report) ? /<testsuites[^>]*>/.exec(readFileSync(report, 'utf8'))?.[0] : undefined;
  if (suites === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const count = (name) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(suites)?.[1] ?? 0);
  const failed = count('failures') + count('errors');
  const skipped = count('skipped');
  const passed = count('tests') - failed - skipped;
  return { passed, failed: ok || failed > 0 ? failed : 1, skipped };
}

/** Runs one test file with the engines it needs; one that cannot have them is one failure. */
async function runTestFile({ root, bun, engines, reportFolder }, file) {
  let environment;
  try {
    environment = await engines.provide(findNeededEngines(root, file));
  } catch (error) {
    console.error(`holdfast: ${error.message}`);
    return { counts: { passed: 0, failed: 1, skipped: 0 }, output: error.message };
  }
  const report = join(reportFolder, `${file.replaceAll('/', '_')}.xml`);
  const bounds = ['--timeout', String(TEST_TIMEOUT_MS)];
  const args = ['test', `./${file}`, ...bounds, '--reporter=junit', `--reporter-outfile=${report}`];
  const { ok, output } = await runShown(bun, args, { cwd: root, environment, timeoutMs: FILE_TIMEOUT_MS });
  return { counts: readCounts(report, ok), output: findFailingOutput(output) };
}

function showAgain(broken) {
  const charsMax = Math.min(SHOWN_AGAIN_CHARS_MAX, ALL_SHOWN_AGAIN_CHARS_MAX / broken.length);
  for (const { name, output } of broken) console.log(`\n== again: ${name}\n${cutMiddle(output, charsMax)}`);
  console.log(`\nnot good: ${broken.map(({ name }) => name).join(', ')}`);
}

/**
 * With filters, only the test files whose path contains one of them run, and no check.
 * @param {{root: string, bun: string, checks: [string, string, string[]][], filters: string[]}} options
 * @returns {Promise<boolean>} whether all is good: a skipped test proves nothing, nor does a run that found nothing to run
 */
export async function runTests({ root, bun, checks, filters }) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  const broken = [];
  for (const [name, command, args] of filters.length === 0 ? checks : []) {
    console.log(`\n== ${name}`);
    const { ok, output } = await runShown(command, args, { cwd: root, timeoutMs: FILE_TIMEOUT_MS });
    total[ok ? 'passed' : 'failed'] += 1;
    if (!ok) broken.push({ name, output: output.trim() });
  }
  const reportFolder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
  const files = findTestFiles(root)
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
  const engines = makeSharedEngines(root, bun);
  for (const file of files) {
    console.log(`\n== ${file}`);
    const startedAt = Date.now();
    const { counts, output } = await runTestFile({ root, bun, engines, reportFolder }, file);
    for (const [name, count] of Object.entries(counts)) total[name] += count;
    if (counts.failed > 0 || counts.skipped > 0) broken.push({ name: file, output });
    console.log(`== ${file}: ${counts.passed} passed, ${counts.failed} failed, ${Date.now() - startedAt} ms`);
  }
  await engines.end();
  rmSync(reportFolder, { recursive: true, force: true });
  if (broken.length > 0) showAgain(broken);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  return total.failed + total.skipped === 0 && total.passed > 0;
}
