/** The commands of a page, run as a reader does: in one shell, in order, and what each prints compared with the page. */
import { readPrinted, type ServerProcess } from './server-process.ts';

export interface Step {
  readonly command: string;
  /** as printed on the page; `…` stands for anything */
  readonly output: string;
}

export interface StepDifference {
  readonly command: string;
  readonly printed: string;
  readonly expected: string;
}

/** Progress lines of a push on a busy machine, which no page can predict. */
const PROGRESS_LINE = /^(?:reading|asking what is missing|uploading|checking|committing): \d.*\n/gm;

/** Every `$ command` of the page's console blocks, with the lines that follow it. */
export function readSteps(markdown: string): Step[] {
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

/** Runs all steps, after pasting what the server printed for that; those that print something else than the page says. */
export async function findDifferences(
  steps: readonly Step[],
  options: {
    readonly folder: string;
    readonly environment: Readonly<Record<string, string | undefined>>;
    /** one of --dev */
    readonly server: ServerProcess;
  },
): Promise<StepDifference[]> {
  const mark = (index: number): string => `=== step ${index} done ===`;
  const script = steps.map(({ command }, index) => `${command}\necho "${mark(index)}"`).join('\n');
  await readPrinted(options.server, /^(# .* usage.*)\n/m);
  const pasted = options.server.output().match(/^export .*$/gm) ?? [];
  const child = Bun.spawn(['bash', '-c', ['exec 2>&1', ...pasted, script].join('\n')], {
    cwd: options.folder,
    env: { ...options.environment, NO_COLOR: '1', NPM_CONFIG_LOGLEVEL: 'error' },
    stdin: 'ignore',
    stdout: 'pipe',
  });
  let rest = await new Response(child.stdout).text();
  return steps.flatMap(({ command, output }, index) => {
    // The output of each command lies between two marks.
    const [printed = '', after = ''] = rest.split(`${mark(index)}\n`);
    rest = after;
    const settled = printed.replaceAll(PROGRESS_LINE, '').trimEnd();
    return toPattern(output).test(settled) ? [] : [{ command, printed: settled, expected: output }];
  });
}

function toPattern(expected: string): RegExp {
  const escaped = expected.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('…', '[\\s\\S]*')}$`);
}
