// The line that says how far a run is: redrawn in place on a terminal, said now and then in a log.

/** The width of a terminal that does not say how wide it is. */
const COLUMNS_UNKNOWN = 80;
const CLEAR_LINE = '\r\x1b[2K';

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

/** A CI may give us a terminal, and keeps what is drawn on it as a log. */
function isWatched(stream) {
  return stream.isTTY === true && process.env.CI === undefined;
}

/**
 * Everything a run prints goes through `print`, so that the line never stands in the middle of it.
 * @param {() => string} read the line as it is now
 * @param {{isTerminal?: boolean, everyMs?: number}} options
 */
export function makeScreen(stream, read, { isTerminal = isWatched(stream), everyMs } = {}) {
  let isDrawn = false;
  let endsLine = true;
  const clear = () => {
    if (isDrawn) stream.write(CLEAR_LINE);
    isDrawn = false;
  };
  const draw = () => {
    // Behind half a line of somebody's output there is no place.
    if (!isTerminal || !endsLine) return;
    clear();
    stream.write(read().slice(0, (stream.columns || COLUMNS_UNKNOWN) - 1));
    isDrawn = true;
  };
  const say = () => {
    stream.write(`${endsLine ? '' : '\n'}-- ${read()}\n`);
    endsLine = true;
  };
  const timer = setInterval(isTerminal ? draw : say, everyMs ?? (isTerminal ? 1000 : 20_000));
  return {
    print(text) {
      if (text === '') return;
      clear();
      stream.write(text);
      endsLine = text.endsWith('\n');
    },
    end() {
      clearInterval(timer);
      clear();
    },
  };
}
