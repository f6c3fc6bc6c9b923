/** A server, Spaces in it, and the tree commands run on them as processes. */
import { expect } from 'bun:test';
import { join } from 'node:path';
import type { CommandResult } from './command-result.ts';
import { directory, file, type Plan, writePlan } from './disk-trees.ts';
import { APP, type RunningServer, startFreshServer } from './running-server.ts';
import { runHoldfast } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';

export class TreeCommands {
  readonly running: RunningServer;
  readonly #folder: ReturnType<typeof makeTempFolder>;
  #count = 0;

  private constructor(running: RunningServer, purpose: string) {
    this.running = running;
    this.#folder = makeTempFolder(purpose);
  }

  static async start(purpose: string): Promise<TreeCommands> {
    return new TreeCommands(await startFreshServer(`${purpose}-server`), purpose);
  }

  async remove(): Promise<void> {
    await this.running.remove();
    this.#folder.remove();
  }

  /** A path that nothing has. */
  fresh(name = 'target'): string {
    this.#count += 1;
    return join(this.#folder.path, `${name}-${this.#count}`);
  }

  environment(spaceId: string, url = this.running.server.url): Record<string, string> {
    return {
      HOLDFAST_URL: url,
      HOLDFAST_APP: APP,
      HOLDFAST_SPACE: spaceId,
      HOLDFAST_TOKEN: this.running.issuer.token(spaceId),
      HOME: this.#folder.path,
      XDG_CACHE_HOME: join(this.#folder.path, 'cache'),
    };
  }

  run(spaceId: string, ...args: string[]): Promise<CommandResult> {
    return runHoldfast(args, { cwd: this.#folder.path, environment: this.environment(spaceId) });
  }

  /** Must succeed; what it prints. */
  async runWell(spaceId: string, ...args: string[]): Promise<string> {
    const result = await this.run(spaceId, ...args);
    if (result.exitCode !== 0) throw new Error(`holdfast ${args.join(' ')}: ${result.stderr}`);
    return result.stdout;
  }

  /** Must fail with that code; the last line on stderr. */
  async runBadly(exitCode: 1 | 2, spaceId: string, ...args: string[]): Promise<string> {
    const result = await this.run(spaceId, ...args);
    expect([result.exitCode, result.stderr.endsWith('\n')]).toEqual([exitCode, true]);
    const line = result.stderr.trimEnd().split('\n').at(-1) ?? '';
    expect(line).toStartWith('holdfast: ');
    return line;
  }

  async push(spaceId: string, path: string): Promise<string> {
    return (await this.runWell(spaceId, 'push', path, '--quiet')).trimEnd();
  }

  /** Puts the plan on disk and into the Space. */
  async pushPlan(spaceId: string, plan: Plan): Promise<{ root: string; source: string }> {
    const source = this.fresh('source');
    writePlan(source, plan);
    return { root: await this.push(spaceId, source), source };
  }
}

/** A tree with everything in it: 6 files, 1 link, 4 folders. */
export const sampleTree = directory({
  'README.md': file(2_000, 1),
  empty: directory(),
  large: file(5_000_000, 2),
  link: { kind: 'symlink', target: '../nowhere' },
  src: directory({
    'main.ts': { kind: 'file', size: 300, seed: 3, isExecutable: true },
    '\u001b[31mred\n': file(10, 4),
    '\u00ff\u00fe': file(11, 5),
    deep: directory({ er: directory({ 'x.txt': file(70_000, 6) }) }),
  }),
});
