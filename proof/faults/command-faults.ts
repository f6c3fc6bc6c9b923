/** Commands while system calls fail: exit 0 is true, a failure is one clear line, and the same command then ends what it began. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { writePlan } from '../../test/support/disk-trees.ts';
import { HOLDFAST } from '../../test/support/holdfast-command.ts';
import { makeRandom } from '../../test/support/seeded-random.ts';
import { cleanEnvironment, ROOT } from '../../test/support/server-process.ts';
import { straceFaults } from '../../test/support/strace.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { TreeCommands } from '../../test/support/tree-commands.ts';
import { compareTrees, TREE, verifyRestored } from '../power-loss/command-scenarios.ts';
import { verifyDeployment } from '../power-loss/verify-nodes.ts';
import { makeDeployment } from '../row-rot/deployment.ts';
import { openFolder } from '../row-rot/world.ts';
import { countInjected, drawFaults, isOfRuntime } from './draw-faults.ts';
import type { Faults } from './serve-faults.ts';

const WANTED = { kinds: 4, firstMax: 16, everyMax: 8 };
/** How often a command may be sent again while it meets faults. */
const ENDS_MAX = 1;

interface Command {
  readonly name: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** A line for each thing that is wrong after exit 0, which printed that. */
  verify(stdout: string): Promise<readonly string[]>;
  /** begins anew */
  reset(): void;
}

/** Each command in turn until `goesOn` says no. */
export function runCommandFaults(seed: number, goesOn: (injected: number) => boolean): Promise<Faults> {
  return withCommands(async (commands, folder) => {
    const random = makeRandom(seed);
    const found: string[] = [];
    let injected = 0;
    for (let round = 0; goesOn(injected); round += 1) {
      const command = commands[round % commands.length] as Command;
      const trace = join(folder, 'trace');
      const faults = drawFaults(random, WANTED);
      const wrong = await judge(command, straceFaults(trace, faults));
      injected += countInjected(trace);
      rmSync(trace, { force: true });
      if (wrong.length > 0)
        found.push(`${command.name}, seed ${seed}, ${faults.join(' ')}: ${wrong.join('; ')}`);
    }
    return { injected, found };
  });
}

/** Each command once, behind `wrapper`. Resolves with a line for each thing that is wrong. */
export function runCommandsBehind(wrapper: readonly string[]): Promise<readonly string[]> {
  return withCommands(async (commands) => {
    const found: string[] = [];
    for (const command of commands)
      found.push(...(await judge(command, wrapper)).map((wrong) => `${command.name}: ${wrong}`));
    return found;
  });
}

async function withCommands<T>(
  work: (commands: readonly Command[], folder: string) => Promise<T>,
): Promise<T> {
  const folder = makeTempFolder('faults', { fast: true });
  const trees = await TreeCommands.start('faults');
  try {
    const ofData = await makeDeploymentCommands(folder.path);
    return await work([...ofData, ...(await makeTreeCommands(folder.path, trees))], folder.path);
  } finally {
    await trees.remove();
    folder.remove();
  }
}

async function judge(command: Command, wrapper: readonly string[]): Promise<string[]> {
  command.reset();
  const wrong: string[] = [];
  for (let tries = 0; tries <= ENDS_MAX; tries += 1) {
    const { exitCode, stdout, stderr } = await runCommand(command, tries < ENDS_MAX ? wrapper : []);
    if (exitCode === 0) return [...wrong, ...(await command.verify(stdout))];
    if (isOfRuntime(stderr)) continue;
    const last = stderr.trimEnd().split('\n').at(-1) ?? '';
    if (!last.startsWith('holdfast: ') || /unexpected/i.test(stderr))
      wrong.push(`exit ${exitCode}: ${stderr}`);
    if (tries === ENDS_MAX) wrong.push(`it cannot be ended: ${stderr}`);
  }
  return wrong;
}

async function runCommand(
  { args, environment }: Pick<Command, 'args' | 'environment'>,
  wrapper: readonly string[],
) {
  const child = Bun.spawn([...wrapper, HOLDFAST, ...args], {
    ...{ cwd: ROOT, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    env: { ...cleanEnvironment(), ...environment },
  });
  const [stdout, stderr] = await Promise.all([child.stdout, child.stderr].map((s) => new Response(s).text()));
  return { exitCode: await child.exited, stdout: stdout as string, stderr: stderr as string };
}

async function makeDeploymentCommands(folder: string): Promise<Command[]> {
  const [source, backup, whole, restored] = ['source', 'backup', 'whole', 'restored'].map((name) =>
    join(folder, name),
  ) as [string, string, string, string];
  mkdirSync(source);
  const known = await makeDeployment(openFolder(source));
  const first = await runCommand({ args: ['backup', whole, '--data', source], environment: {} }, []);
  if (first.exitCode !== 0) throw new Error(first.stderr);
  const remove = (path: string) => (): void => rmSync(path, { recursive: true, force: true });
  return [
    {
      ...{
        name: 'backup',
        args: ['backup', backup, '--data', source],
        environment: {},
        reset: remove(backup),
      },
      async verify() {
        remove(restored)();
        return verifyRestored(backup, restored, known);
      },
    },
    {
      ...{
        name: 'restore',
        args: ['restore', whole, '--data', restored],
        environment: {},
        reset: remove(restored),
      },
      verify: () => verifyDeployment(restored, known),
    },
  ];
}

async function makeTreeCommands(folder: string, trees: TreeCommands): Promise<Command[]> {
  const [source, target] = [join(folder, 'tree'), join(folder, 'pulled')];
  writePlan(source, TREE);
  const root = await trees.push('space', source);
  const environment = trees.environment('space');
  let pushes = 0;
  return [
    {
      ...{ name: 'pull', args: ['pull', root, target], environment },
      verify: async () => compareTrees(source, target),
      reset: () => rmSync(target, { recursive: true, force: true }),
    },
    {
      ...{ name: 'push', args: ['push', source, '--quiet'] },
      get environment() {
        return trees.environment(`pushed-${pushes}`);
      },
      verify: async (stdout) => (stdout.trim() === root ? [] : [`another root: ${stdout}`]),
      reset() {
        pushes += 1;
      },
    },
  ];
}
