// Plans which test files and checks run side by side, and in which order. Pure: no clock, no process.

/** The times of a file that nobody timed: the median of those that were. */
const UNKNOWN_TIMES = { ms: 2000, cpuMs: 1000 };
/** Tasks together may ask for this many times the cores: none uses its share all the time. */
const CORES_SHARE_MAX = 1.25;
/** Even what only waits costs something. */
const SHARE_MIN = 0.1;
/** A longer file gains little by sharing a process, and one that fails is found sooner in one of its own. */
const SHORT_MS_MAX = 2000;
/** As long as its files would take by themselves: longer groups would be what is waited for at the end. */
const GROUP_MS_MAX = 15_000;
/** The time of a group, as a share of what its files would take by themselves. */
const GROUPED_SHARE = 0.5;

/**
 * One check or test file. `share`: how many cores it keeps busy while it runs.
 * @param {{name: string, times?: {ms: number, cpuMs: number}, isCheck?: boolean, isAlone?: boolean}} task
 */
export function makePlanned({ name, times = UNKNOWN_TIMES, isCheck = false, isAlone = false }) {
  const ms = Math.max(1, times.ms);
  return { name, isCheck, isAlone, ms, share: Math.max(SHARE_MIN, times.cpuMs / ms) };
}

/**
 * Test files that run one after the other in one process: of a file that takes a moment, starting a process and reading
 * the code it tests is more than half. Each of the others is a group of its own, as is one whose times nobody wrote down.
 * @template {{name: string, times?: {ms: number, cpuMs: number}, isAlone?: boolean, engines: readonly string[]}} T
 * @param {readonly T[]} files
 * @returns {T[][]}
 */
export function groupShort(files) {
  const groups = [];
  let open = [];
  let openMs = 0;
  for (const file of files) {
    if (!isShort(file)) {
      groups.push([file]);
      continue;
    }
    if (open.length === 0 || openMs + file.times.ms > GROUP_MS_MAX) {
      open = [];
      openMs = 0;
      groups.push(open);
    }
    open.push(file);
    openMs += file.times.ms;
  }
  return groups;
}

function isShort({ times, isAlone = false, engines }) {
  return times !== undefined && times.ms <= SHORT_MS_MAX && !isAlone && engines.length === 0;
}

/** The times of a group. @param {readonly {times?: {ms: number, cpuMs: number}}[]} files */
export function findGroupTimes(files) {
  const [first] = files;
  if (files.length === 1) return first.times;
  const sum = (of) => files.reduce((total, { times }) => total + times[of], 0) * GROUPED_SHARE;
  return { ms: sum('ms'), cpuMs: sum('cpuMs') };
}

/** Checks first, because they say most in the shortest time; then the longest; what runs alone at the end. */
export function orderPlanned(tasks) {
  const rank = ({ isCheck, isAlone }) => (isAlone ? 2 : isCheck ? 0 : 1);
  const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  return [...tasks].sort((a, b) => rank(a) - rank(b) || b.ms - a.ms || byName(a, b));
}

/**
 * The first of `waiting` (in the order of `orderPlanned`) that may start now beside `running`.
 * @param {{cores: number, tasksMax: number}} limits
 */
export function findNext(waiting, running, { cores, tasksMax }) {
  if (running.length >= tasksMax || running.some(({ isAlone }) => isAlone)) return undefined;
  const used = running.reduce((sum, { share }) => sum + share, 0);
  const fits = (task) =>
    running.length === 0 || (!task.isAlone && used + Math.min(task.share, cores) <= cores * CORES_SHARE_MAX);
  return waiting.find(fits);
}
