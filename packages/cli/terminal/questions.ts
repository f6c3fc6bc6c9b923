/** Questions on the terminal: asked on stderr, answered on stdin. */
import { beforeInterruptionLine } from './interruption.ts';
import { jobControl } from './job-control.ts';

export async function ask(question: string): Promise<string> {
  process.stderr.write(question);
  return (await readTyped()).trim();
}

/** As `ask`, and nothing that is typed is shown. */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process;
  const begin = (): void => {
    // Before the question: an answer may come at once.
    stdin.setRawMode(true);
    stderr.write(question);
  };
  const giveBack = (): void => {
    stdin.setRawMode(false);
    stderr.write('\n');
  };
  begin();
  const forget = beforeInterruptionLine(giveBack);
  const forgetStops = jobControl.watch({ onStop: giveBack, onContinue: begin });
  try {
    return (await readTyped()).trim();
  } finally {
    forget();
    forgetStops();
    giveBack();
  }
}

const CTRL_C = '\u0003';
const CTRL_Z = '\u001a';
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
        else if (character === CTRL_Z) {
          // As a terminal that is not raw forgets the line.
          typed = '';
          process.kill(process.pid, 'SIGTSTP');
        } else if (ENDS.has(character)) {
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
