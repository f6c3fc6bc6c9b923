// Runs a program whose output is both shown as it comes and kept, so that the end of a long run can say again what failed.
import { spawn } from 'node:child_process';

/** Of each program the end is kept, in characters: more than any good run prints. */
const OUTPUT_KEPT_CHARS_MAX = 1024 * 1024;
/** What a program that has ended left behind may hold its output open; so long it is still listened to. */
const OUTPUT_AFTER_EXIT_MS_MAX = 2000;

/** Shows what `stream` brings on `shown` and gives it to `keep`, decoded. */
function tap(stream, shown, keep) {
  const decoder = new TextDecoder();
  stream.on('data', (bytes) => {
    shown.write(bytes);
    keep(decoder.decode(bytes, { stream: true }));
  });
}

/** Sees to it that `close` comes soon after `exit`, whoever still holds the output. */
function endOutputAfterExit(child) {
  child.on('exit', () => {
    const timer = setTimeout(() => {
      child.stdout.destroy();
      child.stderr.destroy();
    }, OUTPUT_AFTER_EXIT_MS_MAX);
    child.on('close', () => clearTimeout(timer));
  });
}

/** Keeps the end of what it is given. */
function keepEnd(charsMax = OUTPUT_KEPT_CHARS_MAX) {
  let text = '';
  return {
    add(more) {
      text += more;
      // Cut seldom, so that a program that prints much costs little.
      if (text.length > 2 * charsMax) text = text.slice(-charsMax);
    },
    read: () => text.slice(-charsMax),
  };
}

/**
 * Shows on our own stderr what a child, whose outputs are pipes, writes to its own.
 * @returns {() => string} reads the end of that
 */
export function showErrors(child) {
  const kept = keepEnd();
  tap(child.stderr, process.stderr, kept.add);
  endOutputAfterExit(child);
  return kept.read;
}

/**
 * Runs a program to its end, or kills it after `timeoutMs`.
 * @returns {Promise<{ok: boolean, output: string}>} `output`: the end of what it printed, and how it ended if not well
 */
export function runShown(command, args, { cwd, environment = {}, timeoutMs }) {
  return new Promise((resolve) => {
    const kept = keepEnd();
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Not by spawn's own option, whose timer outlives a program that is not there.
    const timer = setTimeout(() => {
      kept.add(`\nkilled after ${timeoutMs / 1000} s: more means it hangs`);
      child.kill('SIGKILL');
    }, timeoutMs);
    const end = (why) => {
      clearTimeout(timer);
      resolve({ ok: why === undefined, output: kept.read() + (why === undefined ? '' : `\n${why}\n`) });
    };
    tap(child.stdout, process.stdout, kept.add);
    tap(child.stderr, process.stderr, kept.add);
    endOutputAfterExit(child);
    child.on('error', (error) => end(`${command} did not run: ${error.message}`));
    child.on('close', (status, signal) => {
      if (status === 0) end(undefined);
      else end(signal === null ? `ended with status ${status}` : `ended by ${signal}`);
    });
  });
}
