/**
 * The real commands push, edit, verify, pull and compare folders of this machine. The test interrupts them at random moments
 * and continues.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readStanding } from '../packages/files/test/pull-fixture.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { copyRealFolder, editFolder, findRealFolders } from './support/real-trees.ts';
import { makeRandom } from './support/seeded-random.ts';
import { ROOT } from './support/server-process.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const EDITS = 40;
const INTERRUPTIONS = 3;

let commands: TreeCommands;
beforeAll(async () => {
  commands = await TreeCommands.start('real-trees');
});
afterAll(() => commands.remove());

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}

/**
 * Runs the command until it ends by itself, after it was interrupted at random moments within the time of a whole run; what
 * it printed at last. `wholeMs` is only where moments are drawn from: nothing is judged by it.
 */
async function runInterrupted(space: string, args: readonly string[], wholeMs: number): Promise<string> {
  const random = makeRandom(wholeMs);
  for (let interruption = 0; interruption < INTERRUPTIONS; interruption += 1) {
    const child = Bun.spawn([HOLDFAST, ...args], {
      env: { PATH: process.env.PATH ?? '', ...commands.environment(space) },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
    });
    await Promise.race([Bun.sleep(random.below(wholeMs)), child.exited]);
    child.kill(random.pick(['SIGKILL', 'SIGINT', 'SIGTERM'] as const));
    await child.exited;
  }
  return commands.runWell(space, ...args);
}

describe.each(findRealFolders())('$name', ({ name, path }) => {
  const space = `real ${name}`;
  let tree: string;
  let root: string;
  let pushMs: number;

  beforeAll(async () => {
    tree = commands.fresh(name);
    copyRealFolder(path, tree, makeRandom(1));
    const startedAt = performance.now();
    root = await commands.push(space, tree);
    pushMs = performance.now() - startedAt;
  });

  test('comes back as it was, and costs one request if it is pushed again', async () => {
    const target = commands.fresh('copy');
    await commands.runWell(space, 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(tree));
    // A push reads files again that changed right before the last one: a fast machine has just copied this tree.
    await until(async () => (await pushAgain()) === 1);
  });

  /** The requests that a push of the unchanged tree took. */
  async function pushAgain(): Promise<number> {
    const again = await commands.run(space, 'push', tree, '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ root, uploadedNodes: 0 });
    const done = JSON.parse(lastLine(again.stderr)) as { counters: { requests: number } };
    return done.counters.requests;
  }

  test('comes back edited as it is now, even over the old one', async () => {
    const target = commands.fresh('copy');
    await commands.runWell(space, 'pull', root, target, '--quiet');
    editFolder(tree, makeRandom(2), EDITS);
    const edited = await commands.push(space, tree);
    expect(edited).not.toBe(root);
    await commands.runWell(space, 'verify', edited, '--quiet');
    const fresh = commands.fresh('copy');
    await commands.runWell(space, 'pull', edited, fresh, '--quiet');
    expect(readStanding(fresh)).toEqual(readStanding(tree));
    // The other copy has what the edits left: pushed, it is still the first tree.
    expect(await commands.push(space, target)).toBe(root);
  });

  test('arrives whole though push and pull are interrupted at random', async () => {
    const other = `${space} again`;
    const pushed = await runInterrupted(other, ['push', tree, '--no-cache'], pushMs);
    expect(lastLine(pushed)).toBe(await commands.push(space, tree));
    const target = commands.fresh('copy');
    await runInterrupted(other, ['pull', lastLine(pushed), target], pushMs / 2);
    expect(readStanding(target)).toEqual(readStanding(tree));
  });
});

test('a repository that was pulled is whole for git', async () => {
  const target = commands.fresh('git');
  const tree = commands.fresh('whole-git');
  expect(Bun.spawnSync(['git', 'clone', '-q', '--bare', ROOT, tree]).exitCode).toBe(0);
  await commands.runWell('git', 'pull', await commands.push('git', tree), target, '--quiet');
  const fsck = Bun.spawnSync(['git', '--git-dir', target, 'fsck', '--full', '--strict']);
  expect([
    fsck.exitCode,
    fsck.stderr
      .toString()
      .replaceAll(/^(?:Checking|notice).*$/gm, '')
      .trim(),
  ]).toEqual([0, '']);
});
