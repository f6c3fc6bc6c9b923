/** The reader of a command closes the pipe (`| head -1`, `less` and q): the exit code stays true. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { directory, file } from './support/disk-trees.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { readPlace } from './support/read-place.ts';
import { sampleTree, TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'readers';
const TEST_MS_MAX = 60_000;

let commands: TreeCommands;
beforeAll(async () => {
  commands = await TreeCommands.start('gone-readers');
});
afterAll(() => commands.remove());

/** Runs the command; nobody reads `gone` from the start. */
async function runUnread(gone: 'stdout' | 'stderr', ...args: string[]) {
  const { child, texts } = startUnread(gone, ...args);
  const [exitCode] = (await once(child, 'close')) as [number | null];
  return { exitCode, ...texts };
}

function startUnread(gone: 'stdout' | 'stderr', ...args: string[]) {
  const child = spawn(HOLDFAST, args, {
    env: { ...process.env, ...commands.environment(SPACE) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    if (name === gone) child[name].destroy();
    else
      child[name].on('data', (chunk: Buffer) => {
        texts[name] += chunk;
      });
  }
  return { child, texts };
}

test(
  'a push and a pull whose progress nobody reads go on to their end',
  async () => {
    const { root, source } = await commands.pushPlan('other', sampleTree);
    const pushed = await runUnread('stderr', 'push', source);
    expect(pushed).toEqual({ exitCode: 0, stdout: `${root}\n`, stderr: '' });
    const target = commands.fresh();
    expect(await runUnread('stderr', 'pull', root, target)).toMatchObject({ exitCode: 0 });
    expect(await commands.push(SPACE, target)).toBe(root);
    expect(await runUnread('stderr', 'pull', '0'.repeat(64), commands.fresh())).toMatchObject({
      exitCode: 1,
    });
  },
  TEST_MS_MAX,
);

test(
  'a command that only shows succeeds, and one that judges fails, when its reader goes away before the end',
  async () => {
    const { root } = await commands.pushPlan(SPACE, directory({ large: file(9_000_000, 9), x: sampleTree }));
    expect(await runUnread('stdout', 'tree', root)).toMatchObject({ exitCode: 0 });
    const bundle = await runUnread('stdout', 'bundle', 'create', root);
    expect(bundle.exitCode).toBe(1);
    expect(bundle.stderr).toContain('stdout was closed before the command finished');
    const { hash } = JSON.parse(await commands.runWell(SPACE, 'ls', `${root}/x`, '--json')).entries.find(
      (entry: { name: string }) => entry.name === 'README.md',
    );
    new ByteSpoiler(commands.running.data).spoil(readPlace(commands.running.data, hash, SPACE), 'lost');
    const verified = await runUnread('stdout', 'verify', root);
    expect(verified.exitCode).toBe(1);
  },
  TEST_MS_MAX,
);

test(
  'a push ends what it began, with its exit code, and says the root hash elsewhere',
  async () => {
    const source = commands.fresh();
    mkdirSync(source);
    writeFileSync(join(source, 'file'), 'text');
    const root = await commands.push(SPACE, source);
    const lost = `holdfast: nobody reads stdout. Its last line was: ${root}\n`;
    expect(await runUnread('stdout', 'push', source, '--quiet')).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(lost),
    });
    Bun.spawnSync(['mkfifo', join(source, 'pipe')]);
    const { exitCode, stderr } = await runUnread('stdout', 'push', source, '--quiet');
    expect(exitCode).toBe(3);
    expect(stderr).toContain('pipe is left out');
    expect(stderr).toContain(lost);
  },
  TEST_MS_MAX,
);

test(
  'a server goes on',
  async () => {
    const data = commands.fresh();
    const { child, texts } = startUnread('stdout', 'serve', '--listen', '127.0.0.1:0', '--data', data);
    await until(() => /"port":\d+.*"listening"/.test(texts.stderr) || child.exitCode !== null);
    const port = /"port":(\d+)/.exec(texts.stderr)?.[1];
    for (let round = 1; round <= 3; round += 1)
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([0, null]);
  },
  TEST_MS_MAX,
);
