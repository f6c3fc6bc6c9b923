#!/usr/bin/env node
// `npm test [FILTER…]`: installs what is missing, then type check, lint, dead-code check and every test, and closes with
// `N passed, N failed`. With filters, only the test files whose path contains one of them run, and no other check.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled } from './install.mjs';
import { findNeededEngines, makeSharedEngines } from './shared-engines.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, 'node_modules', '.bin', name);
const SKIPPED_FOLDERS = new Set(['node_modules', '.git', 'dist', 'holdfast-data']);
/** One file may take so long; more means it hangs. */
const FILE_TIMEOUT_MS = 20 * 60 * 1000;
const TEST_TIMEOUT_MS = 30_000;

const CHECKS = [
  ['type check', bin('tsc'), ['--noEmit']],
  ['format and lint', bin('biome'), ['check', '--error-on-warnings', '.']],
  ['dead code', bin('knip'), []],
];

function findTestFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : findTestFiles(path);
    return entry.name.endsWith('.test.ts') ? [relative(root, path)] : [];
  });
}

function run(command, args, environment = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: FILE_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    child.on('error', () => resolve(false));
    child.on('close', (status) => resolve(status === 0));
  });
}

/** Counts from the JUnit report; a file that died before it could report is one failure. */
async function runTestFile(file, reportFolder, environment) {
  const report = join(reportFolder, `${file.replaceAll('/', '_')}.xml`);
  const args = [
    'test',
    `./${file}`,
    '--timeout',
    String(TEST_TIMEOUT_MS),
    '--reporter=junit',
    `--reporter-outfile=${report}`,
  ];
  const exitedWell = await run(bin('bun'), args, environment);
  const suites = existsSync(report) ? /<testsuites[^>]*>/.exec(readFileSync(report, 'utf8'))?.[0] : undefined;
  if (suites === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const count = (name) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(suites)?.[1] ?? 0);
  const failed = count('failures') + count('errors');
  const skipped = count('skipped');
  const passed = count('tests') - failed - skipped;
  return { passed, failed: exitedWell || failed > 0 ? failed : 1, skipped };
}

/** Undefined, and said why, when an engine the file needs cannot be had. */
async function provide(engines, file) {
  try {
    return await engines.provide(findNeededEngines(root, file));
  } catch (error) {
    console.error(`holdfast: ${error.message}`);
    return undefined;
  }
}

async function main() {
  ensureInstalled();
  const filters = process.argv.slice(2);
  const total = { passed: 0, failed: 0, skipped: 0 };
  const broken = [];
  if (filters.length === 0) {
    for (const [name, command, args] of CHECKS) {
      console.log(`\n== ${name}`);
      const isGood = await run(command, args);
      total[isGood ? 'passed' : 'failed'] += 1;
      if (!isGood) broken.push(name);
    }
  }
  const reportFolder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
  const files = findTestFiles(root)
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
  const engines = makeSharedEngines(root, bin('bun'));
  for (const file of files) {
    console.log(`\n== ${file}`);
    const environment = await provide(engines, file);
    const startedAt = Date.now();
    const counts =
      environment === undefined
        ? { passed: 0, failed: 1, skipped: 0 }
        : await runTestFile(file, reportFolder, environment);
    for (const [name, count] of Object.entries(counts)) total[name] += count;
    if (counts.failed > 0 || counts.skipped > 0) broken.push(file);
    console.log(`== ${file}: ${counts.passed} passed, ${counts.failed} failed, ${Date.now() - startedAt} ms`);
  }
  await engines.end();
  rmSync(reportFolder, { recursive: true, force: true });
  if (broken.length > 0) console.log(`\nnot good: ${broken.join(', ')}`);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  // A skipped test proves nothing, so it is no success; nor is a run that found nothing to run.
  process.exitCode = total.failed + total.skipped > 0 || total.passed === 0 ? 1 : 0;
}

main().catch((error) => {
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
});
