// Finds in the output of `bun test` what a reader needs who sees only the end of a log: what failed, and how.

/** The line that ends what a test printed. */
const RESULT = /^\((\w+)\) /;
/** Bun says under a result that its test timed out or asserted nothing. */
const REMARK = /^ {2}\^ /;
/** Bun's frame around an error that no test was running for. */
const UNHANDLED = /^# Unhandled error/;
const UNHANDLED_FRAME = /^-{10,}$/;
/** Orders to the CI that runs us: said once, where they belong. */
const CI_COMMAND = /^::\w+/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is colour that is taken away
const COLOUR = /\x1b\[[0-9;]*m/g;

/** An error before a passed test that nobody caught: it belongs to no test. */
function findUnhandled(lines) {
  const found = [];
  let frames = 0;
  for (const line of lines) {
    if (UNHANDLED.test(line)) frames = 2;
    if (frames === 0) continue;
    found.push(line);
    if (UNHANDLED_FRAME.test(line)) frames -= 1;
  }
  return found;
}

/**
 * Leaves out of a test file's output all that passed tests printed. Lines before a `(fail)` line belong to it; what
 * stands at the end, after the last result, may be why the file died.
 * @param {string} output
 * @returns {string}
 */
export function findFailingOutput(output) {
  const found = [];
  let block = [];
  let lastFailed = false;
  for (const line of output.replaceAll(COLOUR, '').split(/\r?\n/)) {
    if (CI_COMMAND.test(line)) continue;
    if (block.length === 0 && REMARK.test(line)) {
      if (lastFailed) found.push(line);
      continue;
    }
    const result = RESULT.exec(line)?.[1];
    if (result === undefined) {
      block.push(line);
      continue;
    }
    lastFailed = result === 'fail';
    found.push(...(lastFailed ? block : findUnhandled(block)));
    // A test that was left out proves nothing, so it is named too.
    if (result !== 'pass') found.push(line);
    block = [];
  }
  return [...found, ...block].join('\n').trim();
}

/**
 * The first failure tells the cause, the last how it ended: of a text that is too long the middle goes.
 * @param {string} text
 * @param {number} charsMax
 * @returns {string}
 */
export function cutMiddle(text, charsMax) {
  if (text.length <= charsMax) return text;
  const half = Math.floor(charsMax / 2);
  return `${text.slice(0, half)}\n[… ${text.length - 2 * half} characters left out …]\n${text.slice(-half)}`;
}
