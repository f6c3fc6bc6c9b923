/** Ctrl-Z, `fg` and `bg` of a real shell on a pseudo-terminal: whose the terminal is, and that the process really stops. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { CHECKOUT_HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const HASH = 'a'.repeat(64);
const TIMEOUT_MS = 300_000;
/** Only ends what hangs. */
const GIVE_UP_MS = 100_000;
const PROMPT = 'ready> ';
const CTRL_C = '\u0003';
const CTRL_Z = '\u001a';
const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const ERASE = '\u001b[J';
/** The start of the view; only the typed command has the whole hash. */
const BLOCK = 'pull aaaaaaaaaaaa…: ';

const place = new Workplace(CHECKOUT_HOLDFAST);
/** Never answers. */
let server: Bun.Server<undefined>;
let environment: Record<string, string> = {};
const children: Bun.Subprocess[] = [];

beforeAll(() => {
  server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: () => new Promise(() => {}) });
  environment = {
    PATH: process.env.PATH ?? '',
    HOME: place.folder,
    TERM: 'xterm',
    PS1: PROMPT,
    HOLDFAST_URL: `http://127.0.0.1:${server.port}`,
    HOLDFAST_APP: 'demo',
    HOLDFAST_SPACE: 'home',
    HOLDFAST_TOKEN: 'a.b.c',
  };
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  void server.stop(true);
  await place.remove();
});

/** An interactive shell with job control, to which `holdfast` is the command line. */
class Shell {
  #shown = '';
  /** of what was shown, until where a wait has looked */
  #seen = 0;
  readonly #decoder = new TextDecoder();
  readonly #child = Bun.spawn(['bash', '--norc', '--noprofile', '--noediting', '-i'], {
    cwd: place.folder,
    env: environment,
    terminal: {
      data: (_, data) => {
        this.#shown += this.#decoder.decode(data, { stream: true });
      },
    },
  });

  static async open(): Promise<Shell> {
    const shell = new Shell();
    children.push(shell.#child);
    await shell.until(PROMPT);
    await shell.run(`holdfast() { "${CHECKOUT_HOLDFAST}" "$@"; }`);
    return shell;
  }

  type(text: string): void {
    this.#child.terminal?.write(text);
  }

  /** The output since the last wait, up to the end of `text`. */
  async until(text: string): Promise<string> {
    const endsAt = performance.now() + GIVE_UP_MS;
    for (;;) {
      const at = this.#shown.indexOf(text, this.#seen);
      if (at !== -1) {
        const passed = this.#shown.slice(this.#seen, at + text.length);
        this.#seen = at + text.length;
        return passed;
      }
      if (performance.now() > endsAt)
        throw new Error(`no ${JSON.stringify(text)} in ${JSON.stringify(this.#shown.slice(this.#seen))}`);
      await Bun.sleep(20);
    }
  }

  /** The output of a command of the shell. */
  async run(command: string): Promise<string> {
    this.type(`${command}\n`);
    await this.until(`${command}\r\n`);
    return (await this.until(PROMPT)).slice(0, -PROMPT.length);
  }

  /** The process of the job that the shell stopped last. */
  async pidOfJob(): Promise<number> {
    return Number((await this.run('jobs -p')).trim());
  }
}

function catches(pid: number, signal: 'SIGTSTP' | 'SIGCONT'): boolean {
  const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return ((BigInt(`0x${caught}`) >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n;
}

test(
  'a job with a live view gives the terminal back with Ctrl-Z, and draws below what the shell wrote',
  async () => {
    const shell = await Shell.open();
    shell.type(`${CHECKOUT_HOLDFAST} pull ${HASH} copy\n`);
    expect(await shell.until(BLOCK)).toContain(HIDE_CURSOR);
    for (let round = 0; round < 2; round += 1) {
      shell.type(CTRL_Z);
      const stopped = await shell.until(PROMPT);
      expect(stopped).toMatch(/\[1\]\+\s+Stopped/);
      expect(stopped.indexOf(SHOW_CURSOR)).toBeGreaterThan(-1);
      expect(stopped.indexOf(SHOW_CURSOR)).toBeLessThan(stopped.indexOf('Stopped'));
      expect(stopped).not.toContain(HIDE_CURSOR);
      expect(await shell.run('echo status $?')).toContain(`status ${128 + constants.signals.SIGTSTP}`);
      shell.type('fg\n');
      const again = await shell.until(BLOCK);
      expect(again).toContain(HIDE_CURSOR);
      expect(again).not.toContain(ERASE);
    }
    shell.type(CTRL_C);
    const ended = await shell.until(PROMPT);
    expect(ended.lastIndexOf(SHOW_CURSOR)).toBeGreaterThan(ended.lastIndexOf(HIDE_CURSOR));
    expect(await shell.run('echo status $?')).toContain('status 130');
  },
  TIMEOUT_MS,
);

test(
  'it leaves the terminal alone in the background, and after kill -STOP begins anew',
  async () => {
    const shell = await Shell.open();
    shell.type(`${CHECKOUT_HOLDFAST} pull ${HASH} copy\n`);
    await shell.until(BLOCK);
    shell.type(CTRL_Z);
    await shell.until(PROMPT);
    const pid = await shell.pidOfJob();
    await shell.run('bg');
    // By then it has said that it stands still, if it says anything.
    expect(await shell.run('sleep 10')).toBe('');
    shell.type('fg\n');
    expect(await shell.until(BLOCK)).toContain(HIDE_CURSOR);
    process.kill(pid, 'SIGSTOP');
    await shell.until(PROMPT);
    shell.type('fg\n');
    const again = await shell.until(BLOCK);
    expect(again).toContain(HIDE_CURSOR);
    expect(again).not.toContain(ERASE);
    shell.type(CTRL_C);
    expect(await shell.until(PROMPT)).toContain(SHOW_CURSOR);
  },
  TIMEOUT_MS,
);

test(
  'a token that is asked for stays hidden after a stop, and the shell has its terminal meanwhile',
  async () => {
    const shell = await Shell.open();
    await shell.run('unset HOLDFAST_TOKEN; before=$(stty -g)');
    shell.type(`${CHECKOUT_HOLDFAST} login typed --no-check\n`);
    const question = 'token (not shown): ';
    await shell.until(question);
    shell.type(`wrong${CTRL_Z}`);
    expect(await shell.until(PROMPT)).toMatch(/\[1\]\+\s+Stopped/);
    expect(await shell.run('[ "$(stty -g)" = "$before" ] && echo same')).toContain('same');
    shell.type('fg\n');
    await shell.until(question);
    shell.type('x.y.z\r');
    expect(await shell.until(PROMPT)).not.toContain('x.y.z');
    const kept = await shell.run('cat .config/holdfast/*');
    expect(kept).toContain('x.y.z');
    expect(kept).not.toContain('wrong');
  },
  TIMEOUT_MS,
);

test.each(['pull HASH copy', 'usage'])(
  'without a live view no signal of job control is handled: %s',
  async (text) => {
    let onAsked = (): void => undefined;
    const asked = new Promise<void>((resolve) => {
      onAsked = resolve;
    });
    server.reload({
      fetch: () => {
        onAsked();
        return new Promise<Response>(() => {});
      },
    });
    const child = Bun.spawn([CHECKOUT_HOLDFAST, ...text.replace('HASH', HASH).split(' ')], {
      cwd: place.folder,
      env: environment,
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    children.push(child);
    await asked;
    expect([catches(child.pid, 'SIGTSTP'), catches(child.pid, 'SIGCONT')]).toEqual([false, false]);
    child.kill('SIGTERM');
    await child.exited;
  },
  TIMEOUT_MS,
);
