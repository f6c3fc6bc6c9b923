/** Questions on the terminal: asked on stderr, answered on stdin. */
import { createInterface } from 'node:readline/promises';
import { beforeInterruptionLine } from './interruption.ts';

/** The answer, without the spaces around it. */
export async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    return (await lines.question(question)).trim();
  } finally {
    lines.close();
  }
}

const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const ERASE = new Set(['\u007f', '\b']);
const ERASE_ALL = '\u0015';

/** As `ask`, and nothing that is typed is shown. */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process;
  stderr.write(question);
  stdin.setRawMode(true);
  stdin.resume();
  const giveBack = (): void => {
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write('\n');
  };
  const forget = beforeInterruptionLine(giveBack);
  try {
    let typed = '';
    for await (const chunk of stdin.iterator({ destroyOnReturn: false })) {
      for (const character of String(chunk)) {
        // A terminal in this mode sends no signals by itself.
        if (character === CTRL_C) process.kill(process.pid, 'SIGINT');
        else if (character === '\r' || character === '\n' || character === CTRL_D) return typed.trim();
        else if (character === ERASE_ALL) typed = '';
        else if (ERASE.has(character)) typed = typed.slice(0, -1);
        else typed += character;
      }
    }
    return typed.trim();
  } finally {
    forget();
    giveBack();
  }
}
