#!/usr/bin/env node
// `npm test`: installs what is missing, then type check, lint, dead-code check and every test, and closes with
// `N passed, N failed`.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findChangedFiles, findTestsOf } from './changed-tests.mjs';
import { ensureInstalled } from './install.mjs';
import { runTests } from './run-tests.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, 'node_modules', '.bin', name);

const CHECKS = [
  ['type check', bin('tsc'), ['--noEmit']],
  ['format and lint', bin('biome'), ['check', '--error-on-warnings', '.']],
  ['dead code', bin('knip'), []],
];

const HELP = `npm test -- [--quick | --changed] [--jobs N] [--remember-times] [FILTER…]

Runs the checks and every test file, side by side, and closes with "N passed, N failed".
A file that fails is run once more, alone, at the end; if it passes then, the run passes and says "flaky: FILE".

  FILTER…            only the test files whose path contains one of these, and no check
  --quick            the checks, and the files that open no store, socket, process or thread, as their imports tell:
                     about a minute, for the one who edits; not a proof
  --changed          only the test files that import what differs from the last commit, and no check
  --jobs N           at most N files side by side (the default depends on the cores); 1 runs one after the other
  --remember-times   run one after the other, and write what each took into tools/test-times.json, by which the next runs
                     are planned; for a machine that does nothing else
  --help             this text

A test file that needs the machine to itself says so in a line of its own: // test-run: alone
`;

/** @returns {{filters: string[], isQuick: boolean, isChanged: boolean, remembers: boolean, tasksMax?: number, isHelp: boolean}} */
function parseArguments(given) {
  const parsed = {
    filters: [],
    isQuick: false,
    isChanged: false,
    remembers: false,
    tasksMax: undefined,
    isHelp: false,
  };
  const rest = [...given];
  while (rest.length > 0) {
    const word = rest.shift();
    if (word === '--quick') parsed.isQuick = true;
    else if (word === '--changed') parsed.isChanged = true;
    else if (word === '--remember-times') parsed.remembers = true;
    else if (word === '--help' || word === '-h') parsed.isHelp = true;
    else if (word === '--jobs') {
      parsed.tasksMax = Number(rest.shift());
      if (!Number.isInteger(parsed.tasksMax) || parsed.tasksMax < 1)
        throw new WrongUsage('--jobs takes a whole number from 1 on');
    } else if (word.startsWith('-'))
      throw new WrongUsage(`there is no option ${word}; see npm test -- --help`);
    else parsed.filters.push(word);
  }
  // Side by side they slow each other down, and the plan would be made of that.
  if (parsed.remembers) parsed.tasksMax = 1;
  return parsed;
}

class WrongUsage extends Error {}

async function main() {
  const { isHelp, isChanged, ...options } = parseArguments(process.argv.slice(2));
  if (isHelp) {
    process.stdout.write(HELP);
    return;
  }
  ensureInstalled();
  if (isChanged) {
    options.filters.push(...findTestsOf(root, findChangedFiles(root)));
    if (options.filters.length === 0) {
      console.log('no test imports what differs from the last commit');
      return;
    }
  }
  const isGood = await runTests({ root, bun: bin('bun'), checks: CHECKS, ...options });
  process.exitCode = isGood ? 0 : 1;
}

main().catch((error) => {
  console.error(`holdfast: ${error.message}`);
  process.exitCode = error instanceof WrongUsage ? 2 : 1;
});
