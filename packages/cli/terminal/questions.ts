/** Questions on the terminal: asked on stderr, answered on stdin. */
import { beforeInterruptionLine } from './interruption.ts';

/** The answer, without the spaces around it. */
export async function ask(question: string): Promise<string> {
  process.stderr.write(question);
  return (await readTyped()).trim();
}

/** As `ask`, and nothing that is typed is shown. */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process;
  // Before the question: an answer may come at once.
  stdin.setRawMode(true);
  stderr.write(question);
  const giveBack = (): void => {
    stdin.setRawMode(false);
    stderr.write('\n');
  };
  const forget = beforeInterruptionLine(giveBack);
  try {
    return (await readTyped()).trim();
  } finally {
    forget();
    giveBack();
  }
}

const CTRL_C = '\u0003';
const ENDS = new Set(['\r', '\n', '\u0004']);
const ERASE = new Set(['\u007f', '\b']);
const ERASE_ALL = '\u0015';

/** Reads one line. A terminal in raw mode does not handle keys such as backspace, so this does. */
function readTyped(): Promise<string> {
  const { stdin } = process;
  return new Promise((resolve) => {
    let typed = '';
    const onData = (chunk: Uint8Array | string): void => {
      for (const character of String(chunk)) {
        if (character === CTRL_C) process.kill(process.pid, 'SIGINT');
        else if (ENDS.has(character)) {
          onEnd();
          return;
        } else if (character === ERASE_ALL) typed = '';
        else if (ERASE.has(character)) typed = typed.slice(0, -1);
        else typed += character;
      }
    };
    const onEnd = (): void => {
      stdin.off('data', onData).off('end', onEnd).pause();
      resolve(typed);
    };
    stdin.on('data', onData).on('end', onEnd).resume();
  });
}
