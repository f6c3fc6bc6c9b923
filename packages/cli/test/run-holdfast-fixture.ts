/** Runs the real command line as a process of its own, in a folder of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resultOf } from '../../../test/support/command-result.ts';
import { HOLDFAST } from '../../../test/support/holdfast-command.ts';

/** ms; a command that has not ended by then is killed and fails its test */
const TIMEOUT_MS = 240_000;

export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
  /** added to the environment of every command */
  readonly environment: Record<string, string> = {};
  #server: Bun.Subprocess<'ignore', 'pipe', 'ignore'> | undefined;
  readonly #command: string;

  constructor(command = HOLDFAST) {
    this.#command = command;
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names);
  }

  run(...args: readonly string[]): Promise<Outcome> {
    return this.#spawn([this.#command, ...args]);
  }

  /** Runs a script of sh, to which `holdfast` is the command line. */
  runScript(script: string, command = this.#command): Promise<Outcome> {
    return this.#spawn(['sh', '-c', `holdfast() { "${command}" "$@"; }\n${script}`]);
  }

  async #spawn(command: readonly string[]): Promise<Outcome> {
    const child = Bun.spawn([...command], {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '', HOME: this.folder, ...this.environment },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      timeout: TIMEOUT_MS,
    });
    return resultOf(child);
  }

  /** Runs a command that must succeed without a word on stderr; what it prints. */
  async print(...args: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(...args);
    if (exitCode !== 0 || stderr !== '')
      throw new Error(`holdfast ${args.join(' ')}: ${exitCode}, ${stderr}`);
    return stdout;
  }

  /** Runs a command that must fail with `exitCode`, nothing on stdout and one line on stderr; that line. */
  async fail(exitCode: 1 | 2, ...args: readonly string[]): Promise<string> {
    const outcome = await this.run(...args);
    const isOneLine = /^holdfast: [^\n]+\n$/.test(outcome.stderr);
    if (outcome.exitCode !== exitCode || outcome.stdout !== '' || !isOneLine) {
      throw new Error(`holdfast ${args.join(' ')} should fail with ${exitCode}: ${JSON.stringify(outcome)}`);
    }
    return outcome.stderr;
  }

  /** Starts `holdfast serve --dev` here; the variables that it prints for its clients. */
  async serve(): Promise<Record<string, string>> {
    const server = Bun.spawn([this.#command, 'serve', '--dev', '--listen', '127.0.0.1:0'], {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '', HOME: this.folder },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
    });
    this.#server = server;
    let said = '';
    for await (const chunk of server.stdout) {
      said += new TextDecoder().decode(chunk);
      // Its last line is an example, with the command as it was started.
      if (said.endsWith(' usage\n')) break;
    }
    return Object.fromEntries(
      [...said.matchAll(/^export (\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value]),
    );
  }

  async remove(): Promise<void> {
    this.#server?.kill('SIGTERM');
    await this.#server?.exited;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
