// The run behind `npm test`: the checks and each test file in a process of its own, short files a group in one, side by side as
// tools/test-plan.mjs says.
// Each is shown in one piece when it ends, and what failed is shown once more at the end, because some places keep only the
// end of a log.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { endAllRuns, readCpuMs, runKept } from './child-run.mjs';
import { cutMiddle, findFailingOutput } from './failing-output.mjs';
import { opensNothing } from './imports.mjs';
import { formatDuration, formatProgress, makeScreen } from './progress.mjs';
import { findNeededEngines, makeSharedEngines } from './shared-engines.mjs';
import { findTestFiles, readOrder, readTimes, writeTimes } from './test-files.mjs';
import { findGroupTimes, findNext, groupShort, makePlanned, orderPlanned } from './test-plan.mjs';

/** One file may take so long; more means it hangs. */
const FILE_TIMEOUT_MS = 20 * 60 * 1000;
/** Only ends what hangs: many times what any test takes that does not ask for more. */
const TEST_TIMEOUT_MS = 300_000;
/** How much is shown once more: of one file or check, and of all together. */
const SHOWN_AGAIN_CHARS_MAX = 8000;
const ALL_SHOWN_AGAIN_CHARS_MAX = 48_000;
/** Tasks side by side for each core, however little they do: each has its memory. */
const TASKS_PER_CORE_MAX = 3;
/** More files than this are not run once more: their fault is not an accident. */
const FILES_AGAIN_MAX = 12;
/** Expected of a file that opens nothing and that nobody has timed. */
const QUICK_TIMES = { ms: 500, cpuMs: 400 };
const STOP_SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

const NO_COUNTS = { passed: 0, failed: 0, skipped: 0 };
const NOTHING_RAN = { passed: 0, failed: 1, skipped: 0 };

function isGood({ failed, skipped }) {
  return failed + skipped === 0;
}

function addCounts(a, b) {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped };
}

/** Counts from the JUnit report; files that died before they could report are one failure. */
function readCounts(report, ok) {
  const suites = existsSync(report) ? /<testsuites[^>]*>/.exec(readFileSync(report, 'utf8'))?.[0] : undefined;
  if (suites === undefined) return NOTHING_RAN;
  const { tests, failed, skipped } = countIn(suites);
  return { passed: tests - failed - skipped, failed: ok || failed > 0 ? failed : 1, skipped };
}

function countIn(tag) {
  const count = (name) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(tag)?.[1] ?? 0);
  return { tests: count('tests'), failed: count('failures') + count('errors'), skipped: count('skipped') };
}

/** The counts of each file of a task, of those that its report tells of. */
function readFileCounts({ files, report }) {
  if (report === undefined || !existsSync(report)) return new Map();
  const tags = readFileSync(report, 'utf8').match(/^ {2}<testsuite [^>]*>/gm) ?? [];
  const found = files.map((file) => [file, tags.find((tag) => tag.includes(` file="${file}"`))]);
  return new Map(found.filter(([, tag]) => tag !== undefined).map(([file, tag]) => [file, countIn(tag)]));
}

/** The files of a task that are not good, as its report says; all of them if it does not tell. */
function findBroken(task) {
  if (task.files.length === 1) return task.files;
  const counts = readFileCounts(task);
  const broken = task.files.filter((file) => !isGood(counts.get(file) ?? NOTHING_RAN));
  return broken.length > 0 ? broken : task.files;
}

function countOthers(task, files) {
  if (files.length === task.files.length) return NO_COUNTS;
  const others = [...readFileCounts(task)].filter(([file]) => !files.includes(file));
  return others.reduce(
    (sum, [, { tests, failed, skipped }]) =>
      addCounts(sum, { passed: tests - failed - skipped, failed, skipped }),
    NO_COUNTS,
  );
}

/** The tasks of a run, in the order of the plan; `files`, `engines`, `command` and `report` are ours, the rest is the plan's. */
function findTasks({ root, bun, checks, filters, isQuick, remembers, reportFolder }) {
  const times = readTimes(root);
  const tasks = [];
  const add = (task) => tasks.push({ ...task, ...makePlanned(task) });
  for (const [name, command, args] of filters.length === 0 ? checks : [])
    add({
      name,
      times: times.get(name),
      isCheck: true,
      files: [name],
      engines: [],
      command: [command, ...args],
    });
  const files = [];
  // Sorted, so that the same files share a process everywhere.
  for (const file of findTestFiles(root).sort()) {
    if (filters.length > 0 && !filters.some((filter) => file.includes(filter))) continue;
    const order = readOrder(root, file);
    const engines = findNeededEngines(root, file);
    if (isQuick && !opensNothing(root, file)) continue;
    const fileTimes = times.get(file) ?? (isQuick ? QUICK_TIMES : undefined);
    files.push({ name: file, times: fileTimes, isAlone: order.isAlone, engines });
  }
  // With filters each file is shown by itself, and times are measured of each.
  const groups = filters.length > 0 || remembers ? files.map((file) => [file]) : groupShort(files);
  for (const [index, group] of groups.entries()) {
    const names = group.map(({ name }) => name);
    const run = makeFilesRun(bun, names, join(reportFolder, `${index}.xml`));
    add({ ...group[0], times: findGroupTimes(group), ...run });
  }
  return orderPlanned(tasks);
}

/** How these test files run in one process. */
function makeFilesRun(bun, files, report) {
  const reporting = ['--reporter=junit', `--reporter-outfile=${report}`];
  const paths = files.map((file) => `./${file}`);
  const command = [bun, 'test', ...paths, '--timeout', String(TEST_TIMEOUT_MS), ...reporting];
  const name = files.length === 1 ? files[0] : `${files[0]} and ${files.length - 1} more`;
  return { name, files, command, report };
}

/** Runs one check or test file, a file with the engines it needs; one that cannot have them is one failure. */
async function runTask(task, { root, engines, fileTimeoutMs = FILE_TIMEOUT_MS, show }) {
  let environment;
  try {
    environment = await engines.provide(task.engines);
  } catch (error) {
    return { counts: NOTHING_RAN, output: `holdfast: ${error.message}\n` };
  }
  const [command, ...args] = task.command;
  const bounds = { cwd: root, environment, timeoutMs: fileTimeoutMs, show };
  const { ok, output, cpuMs } = await runKept(command, args, bounds);
  if (!task.isCheck) return { counts: readCounts(task.report, ok), output, cpuMs };
  return { counts: { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 }, output, cpuMs };
}

function countFiles(tasks) {
  return tasks.reduce((sum, { files }) => sum + files.length, 0);
}

/** One run: what waits, what runs, what is over. */
class TestRun {
  constructor(options, tasks) {
    this.options = options;
    this.waiting = [...tasks];
    this.all = countFiles(tasks);
    this.running = [];
    this.done = [];
    this.broken = [];
    this.flaky = [];
    this.startedAt = Date.now();
    this.screen = makeScreen(process.stdout, () => this.formatProgress());
    this.engines = makeSharedEngines({ ...options, print: (text) => this.screen.print(text) });
  }

  formatProgress() {
    const now = Date.now();
    const running = this.running.map((task) => ({ ...task, ranMs: now - task.startedAt }));
    return formatProgress({
      done: countFiles(this.done),
      all: this.all,
      failed: this.broken.length,
      tookMs: now - this.startedAt,
      names: running.sort((a, b) => b.ranMs - a.ranMs).map(({ name }) => name.split('/').at(-1)),
    });
  }

  /** Resolves when nothing waits and nothing runs. */
  async toEnd() {
    const needed = [...new Set(this.waiting.flatMap(({ engines }) => engines))];
    await new Promise((resolve) => {
      const goOn = () => {
        this.#startAll(goOn);
        if (this.waiting.length + this.running.length === 0) resolve();
      };
      for (const engine of needed) this.engines.begin([engine]).then(goOn);
      goOn();
    });
  }

  /** Starts what may start now; `goOn` is called when one of them has ended. */
  #startAll(goOn) {
    for (;;) {
      const ready = this.waiting.filter(({ engines }) => this.engines.areSettled(engines));
      const task = findNext(ready, this.running, this.options.limits);
      if (task === undefined) return;
      this.waiting.splice(this.waiting.indexOf(task), 1);
      this.#run(task).then(goOn);
    }
  }

  async #run(task) {
    const entry = { ...task, startedAt: Date.now() };
    this.running.push(entry);
    const isOnly = this.all === 1;
    const show = isOnly ? (text) => this.screen.print(text) : undefined;
    if (isOnly) this.screen.print(`\n== ${task.name}\n`);
    const { counts, output, cpuMs } = await runTask(task, { ...this.options, engines: this.engines, show });
    const tookMs = Date.now() - entry.startedAt;
    this.running.splice(this.running.indexOf(entry), 1);
    this.done.push({ ...task, tookMs, cpuMs: cpuMs ?? tookMs, counts });
    if (!isGood(counts))
      this.broken.push({
        task,
        files: findBroken(task),
        output: task.isCheck ? output.trim() : findFailingOutput(output),
      });
    const block = isOnly
      ? ''
      : `\n== ${task.name}\n${output}${output === '' || output.endsWith('\n') ? '' : '\n'}`;
    const used = cpuMs === undefined ? '' : ` (${Math.round(cpuMs)} ms of CPU)`;
    this.screen.print(
      `${block}== ${task.name}: ${counts.passed} passed, ${counts.failed} failed, ${tookMs} ms${used}\n`,
    );
  }

  /** Runs each failed file again, alone: one that passes is named. More than FILES_AGAIN_MAX are no accident, and stay as they are. */
  async runBrokenAgain() {
    const tests = this.broken.filter(({ task }) => !task.isCheck);
    if (countFiles(tests) > FILES_AGAIN_MAX) return;
    for (const first of tests) {
      const { task, files } = first;
      this.broken.splice(this.broken.indexOf(first), 1);
      let counts = countOthers(task, files);
      for (const file of files) {
        const again = await this.#runAgain(task, file);
        counts = addCounts(counts, again.counts);
        if (isGood(again.counts)) this.flaky.push({ file, output: first.output });
        else this.broken.push({ task, files: [file], output: findFailingOutput(again.output) });
      }
      this.done.find(({ report }) => report === task.report).counts = counts;
    }
  }

  async #runAgain(task, file) {
    const report = `${task.report}.${task.files.indexOf(file)}.xml`;
    const again = { ...task, ...makeFilesRun(this.options.bun, [file], report), startedAt: Date.now() };
    this.running = [again];
    this.screen.print(`\n== once more, alone: ${file}\n`);
    const { counts, output } = await runTask(again, { ...this.options, engines: this.engines });
    this.running = [];
    this.screen.print(
      `${output}== once more, alone: ${file}: ${counts.passed} passed, ${counts.failed} failed\n`,
    );
    return { counts, output };
  }

  /** Ends what it started: engines, and what still runs. */
  async end(signal) {
    if (signal !== undefined) {
      this.waiting = [];
      await endAllRuns(signal);
    }
    await this.engines.end();
    this.screen.end();
  }
}

function showAgain(broken) {
  const charsMax = Math.min(SHOWN_AGAIN_CHARS_MAX, ALL_SHOWN_AGAIN_CHARS_MAX / broken.length);
  const named = broken.map(({ files, output }) => ({ name: files.join(', '), output }));
  const sorted = named.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name, output } of sorted) console.log(`\n== again: ${name}\n${cutMiddle(output, charsMax)}`);
  console.log(`\nnot good: ${sorted.map(({ name }) => name).join(', ')}`);
}

/** A signal ends everything that was started, and then this process. */
function endOnSignals(run, reportFolder) {
  for (const [signal, exitCode] of Object.entries(STOP_SIGNALS)) {
    process.once(signal, () => {
      run.screen.print(`\nholdfast: ${signal}: ending ${run.running.map(({ name }) => name).join(', ')}\n`);
      const leave = () => {
        rmSync(reportFolder, { recursive: true, force: true });
        process.exit(exitCode);
      };
      run.end(signal).then(leave, leave);
    });
  }
}

/**
 * With filters, only the test files whose path contains one of them run, and no check.
 * @param {{root: string, bun: string, checks: [string, string, string[]][], filters: string[], isQuick?: boolean,
 *   remembers?: boolean, cores?: number, tasksMax?: number, fileTimeoutMs?: number}} options `remembers`: the times
 *   measured are written down
 * @returns {Promise<boolean>} whether all is good: a skipped test proves nothing, nor does a run that found nothing to run
 */
export async function runTests(options) {
  const { root, checks, remembers = false } = options;
  const cores = options.cores ?? availableParallelism();
  const limits = { cores, tasksMax: options.tasksMax ?? cores * TASKS_PER_CORE_MAX };
  const reportFolder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
  const run = new TestRun({ ...options, limits }, findTasks({ ...options, reportFolder }));
  endOnSignals(run, reportFolder);
  await run.toEnd();
  if (options.filters.length === 0) await run.runBrokenAgain();
  await run.end();
  rmSync(reportFolder, { recursive: true, force: true });
  const total = run.done.reduce((sum, { counts }) => addCounts(sum, counts), NO_COUNTS);
  if (remembers) {
    const measured = run.done.map(({ name, tookMs, cpuMs }) => [name, { ms: tookMs, cpuMs }]);
    writeTimes(root, new Map(measured), [...checks.map(([name]) => name), ...findTestFiles(root)]);
  }
  const cpuMs = readCpuMs();
  const used = cpuMs === undefined ? '' : `, with ${formatDuration(cpuMs)} of CPU`;
  console.log(`\ntook ${formatDuration(Date.now() - run.startedAt)}${used}`);
  for (const { file, output } of run.flaky) {
    console.log(`\n== failed once: ${file}\n${cutMiddle(output, SHOWN_AGAIN_CHARS_MAX)}`);
    console.log(`flaky: ${file}`);
  }
  if (run.broken.length > 0) showAgain(run.broken);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  return isGood(total) && total.passed > 0;
}
