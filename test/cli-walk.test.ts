/** The walks of the README and the recipes, word for word, on a fresh data folder. Only the ports are others: tests take free ones. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { copyFileSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const README_URL = 'http://127.0.0.1:8420';
/** what a checkout has that the walk uses */
const LINKED = ['LICENSE', 'bin', 'docs', 'node_modules', 'packages'];
/** The walk sleeps for a minute; more than twice what the rest takes on a very busy machine. */
const WALK_MS_MAX = 480_000;

interface Step {
  readonly command: string;
  /** as printed in the README; `…` stands for anything */
  readonly output: string;
}

const folder = makeTempFolder('walk');
let server: ServerProcess;

beforeAll(async () => {
  copyFileSync(join(ROOT, 'package.json'), join(folder.path, 'package.json'));
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder.path, name));
  server = await startServer({ data: join(folder.path, 'holdfast-data'), arguments: ['--dev'] });
  await until(() => server.output().includes('HOLDFAST_TOKEN='));
}, 60_000);

afterAll(async () => {
  await server.end('SIGTERM');
  folder.remove();
});

/** Every `$ command` of the README's console blocks, with the lines that follow it. */
function readSteps(markdown: string): Step[] {
  const blocks = [...markdown.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map((match) => match[1] as string);
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((part) => {
        const end = part.indexOf('\n');
        return { command: part.slice(0, end), output: part.slice(end + 1).trimEnd() };
      }),
  );
}

/**
 * One shell for all, as a reader has, who first pastes what the server printed; what each command printed is cut out between
 * marks.
 */
async function runSteps(steps: readonly Step[]): Promise<string[]> {
  const mark = (index: number): string => `=== step ${index} done ===`;
  const pasted = server.output().match(/^export .*$/gm) ?? [];
  const commands = steps.map(({ command }, index) => `${command}\necho "${mark(index)}"`);
  const script = [...pasted, ...commands].join('\n');
  const child = Bun.spawn(['bash', '-c', `exec 2>&1\n${script}`], {
    cwd: folder.path,
    env: {
      ...process.env,
      XDG_CACHE_HOME: join(folder.path, 'cache'),
      NO_COLOR: '1',
      NPM_CONFIG_LOGLEVEL: 'error',
    },
    stdin: 'ignore',
    stdout: 'pipe',
  });
  let rest = await new Response(child.stdout).text();
  return steps.map((_, index) => {
    const [output = '', after = ''] = rest.split(`${mark(index)}\n`);
    rest = after;
    return output.trimEnd();
  });
}

function toPattern(expected: string): RegExp {
  const escaped = expected.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('…', '[\\s\\S]*')}$`);
}

test.each([
  ['README.md', 40],
  ['docs/recipes.md', 25],
])(
  'every command prints what %s says',
  async (page, stepsMin) => {
    const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(README_URL, server.url);
    const steps = readSteps(text);
    expect(steps.length).toBeGreaterThan(stepsMin);
    const outputs = await runSteps(steps);
    const told = steps.map(({ command, output }, index) => {
      const isAsTold = toPattern(output).test(outputs[index] as string);
      return isAsTold ? undefined : { command, printed: outputs[index], expected: output };
    });
    expect(told.filter((difference) => difference !== undefined)).toEqual([]);
  },
  WALK_MS_MAX,
);
