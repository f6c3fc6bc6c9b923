#!/usr/bin/env node
// `npm test [FILTER…]`: installs what is missing, then type check, lint, dead-code check and every test, and closes with
// `N passed, N failed`. With filters, only the test files whose path contains one of them run, and no other check.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled } from './install.mjs';
import { runTests } from './run-tests.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, 'node_modules', '.bin', name);

const CHECKS = [
  ['type check', bin('tsc'), ['--noEmit']],
  ['format and lint', bin('biome'), ['check', '--error-on-warnings', '.']],
  ['dead code', bin('knip'), []],
];

async function main() {
  ensureInstalled();
  const filters = process.argv.slice(2);
  const isGood = await runTests({ root, bun: bin('bun'), checks: CHECKS, filters });
  process.exitCode = isGood ? 0 : 1;
}

main().catch((error) => {
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
});
