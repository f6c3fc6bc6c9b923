/** Backups that an operator requests. Each runs in its own process: it holds files open, and gets a lower priority. */
import { OperatorError } from './problem.ts';

export interface BackupOutcome {
  readonly nodes: number;
  readonly bytes: number;
  readonly copiedBytes: number;
  readonly ms: number;
}

export interface RunningBackup {
  readonly folder: string;
  /** ms since the epoch */
  readonly startedAt: number;
  readonly progress: string;
}

export class FolderBackups {
  readonly #program: readonly string[];
  readonly dataDir: string;
  #running: { readonly folder: string; readonly startedAt: number; progress: string } | undefined;
  #child: Bun.Subprocess | undefined;
  #isStopped = false;

  /** `program`: the command that starts this holdfast, before its arguments */
  constructor(program: readonly string[], dataDir: string) {
    this.#program = program;
    this.dataDir = dataDir;
  }

  get running(): RunningBackup | undefined {
    return this.#running;
  }

  /** `folder` is absolute, so it cannot be taken for an option. Rejects with OperatorError. */
  async run(folder: string): Promise<BackupOutcome> {
    if (this.#isStopped) throw drains();
    if (this.#running !== undefined) {
      throw new OperatorError(
        'CONFLICT',
        `a backup into ${this.#running.folder} is under way: wait until it is done`,
      );
    }
    const running = { folder, startedAt: Date.now(), progress: 'starting' };
    this.#running = running;
    try {
      const child = Bun.spawn([...this.#program, 'backup', folder, '--data', this.dataDir, '--json'], {
        argv0: process.argv0,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
      });
      this.#child = child;
      const [code, answer, said] = await Promise.all([
        child.exited,
        new Response(child.stdout).text(),
        readLines(child.stderr, (line) => {
          running.progress = line;
        }),
      ]);
      if (code === 0) return JSON.parse(answer) as BackupOutcome;
      if (this.#isStopped) throw drains();
      throw new OperatorError('CONFLICT', said.replace(/^holdfast: /, '') || `the backup ended with ${code}`);
    } finally {
      this.#running = undefined;
      this.#child = undefined;
    }
  }

  /** Stops the backup when the server ends; the former one stays valid. */
  stop(): void {
    this.#isStopped = true;
    this.#child?.kill('SIGTERM');
  }
}

const drains = (): OperatorError =>
  new OperatorError('DRAINING', 'the server is ending: the former backup is unchanged');

async function readLines(
  stream: ReadableStream<Uint8Array>,
  onLine: (line: string) => void,
): Promise<string> {
  const decoder = new TextDecoder();
  let rest = '';
  let last = '';
  for await (const piece of stream) {
    const lines = `${rest}${decoder.decode(piece, { stream: true })}`.split('\n');
    rest = (lines.pop() ?? '').slice(-8192);
    for (const line of lines) {
      if (line === '') continue;
      last = line;
      onLine(line);
    }
  }
  return rest === '' ? last : rest;
}
