// Plans which test files and checks run side by side, in which order, and how long the rest may take. Pure: no clock, no process.

/** The times of a file that nobody timed: the median of those that were. */
const UNKNOWN_TIMES = { ms: 2000, cpuMs: 1000 };
/** Tasks together may ask for this many times the cores: none uses its share all the time. */
const CORES_SHARE_MAX = 1.25;
/** Even what only waits costs something. */
const SHARE_MIN = 0.1;
/** A late task is expected to take this share of its time so far once more. */
const LATE_SHARE = 0.2;
/** A longer file gains little by sharing a process, and one that fails is found sooner in one of its own. */
const SHORT_MS_MAX = 2000;
/** As long as its files would take by themselves: longer groups would be what is waited for at the end. */
const GROUP_MS_MAX = 15_000;
/** The time of a group, as a share of what its files would take by themselves. */
const GROUPED_SHARE = 0.5;
/** The pace of a run is little known until this much of it was expected to be over. */
const PACE_KNOWN_AFTER_MS = 30_000;

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

/** Nobody knows how long a late task still takes; the longer it is late, the longer it may be. */
function findLeftMs({ ms, ranMs }, pace) {
  return Math.max(ms * pace - ranMs, LATE_SHARE * ranMs, 1000);
}

/**
 * Plays the rest through: how long it takes when everything takes as long as it did before, times `pace`.
 * @param {{ranMs: number}[]} running tasks, and how long each has run
 */
export function estimateLeftMs(waiting, running, limits, pace = 1) {
  const open = [...waiting];
  let under = running.map((task) => ({ task, left: findLeftMs(task, pace) }));
  const atOnce = under.reduce((sum, { task, left }) => sum + left * task.share, 0);
  const cpuLeft = open.reduce((sum, { ms, share }) => sum + ms * pace * share, atOnce);
  let atMs = 0;
  for (;;) {
    for (;;) {
      const tasks = under.map(({ task }) => task);
      const next = findNext(open, tasks, limits);
      if (next === undefined) break;
      open.splice(open.indexOf(next), 1);
      under.push({ task: next, left: next.ms * pace });
    }
    if (under.length === 0) break;
    const step = Math.min(...under.map(({ left }) => left));
    atMs += step;
    under = under.map(({ task, left }) => ({ task, left: left - step })).filter(({ left }) => left > 0);
  }
  return Math.max(atMs, cpuLeft / limits.cores);
}

/** How slow this run is, by what is over: 2 where everything takes twice as long as it was written down. */
export function findPace(done) {
  const expected = done.reduce((sum, { ms }) => sum + ms, 0);
  const took = done.reduce((sum, { tookMs }) => sum + tookMs, 0);
  // Little by little, so that the first files do not throw the estimate about.
  return (took + PACE_KNOWN_AFTER_MS) / (expected + PACE_KNOWN_AFTER_MS);
}
