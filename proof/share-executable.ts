/** The sections start the executable of a release, as tests do over a run of `npm test`: a command starts in a third of the CPU time. */
import { join } from 'node:path';
import { BUILT_HOLDFAST_VARIABLE } from '../test/support/holdfast-command.ts';

const KEEPER = join(import.meta.dir, '..', 'test', 'support', 'shared-engines.ts');

/** Builds it, unless the environment names one. It is removed when this process has ended. @returns the environment that names it */
export async function shareExecutable(): Promise<Readonly<Record<string, string>>> {
  if (process.env[BUILT_HOLDFAST_VARIABLE] !== undefined) return {};
  const keeper = Bun.spawn([process.execPath, KEEPER, 'holdfast'], {
    ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
  });
  keeper.unref();
  const decoder = new TextDecoder();
  let line = '';
  for await (const chunk of keeper.stdout) {
    line += decoder.decode(chunk, { stream: true });
    if (line.includes('\n')) break;
  }
  return JSON.parse(line);
}
