// The line that says how far a run is.

/** "48 s", "4 min 10 s". */
export function formatDuration(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** @param {{done: number, all: number, tookMs: number, failed: number, names: string[]}} state */
export function formatProgress({ done, all, tookMs, failed, names }) {
  const bad = failed > 0 ? `, ${failed} not good` : '';
  const now = names.length > 0 ? `; now ${names.join(', ')}` : '';
  return `${done} of ${all} files${bad}, ${formatDuration(tookMs)}${now}`;
}

/**
 * Says how far the run is now and then. Everything a run prints goes through `print`, so that this never stands in the middle of it.
 * @param {() => string} read the line as it is now
 */
export function makeScreen(stream, read, everyMs = 20_000) {
  let endsLine = true;
  const timer = setInterval(() => {
    stream.write(`${endsLine ? '' : '\n'}-- ${read()}\n`);
    endsLine = true;
  }, everyMs);
  return {
    print(text) {
      if (text === '') return;
      stream.write(text);
      endsLine = text.endsWith('\n');
    },
    end: () => clearInterval(timer),
  };
}
