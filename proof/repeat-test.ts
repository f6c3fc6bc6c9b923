/** Tests that draw anew at each run, run again and again: what one run of the tests does once, a proof does for its budget. */
import { join } from 'node:path';

const ROOT = join(import.meta.dir, '..');
/** Only ends what hangs. */
const TIMEOUT_MS = 1_800_000;
/** of what a failed run said; its seed is in it */
const SHOWN_CHARACTERS = 2_000;

export interface Repeated {
  readonly runs: number;
  readonly found: readonly string[];
}

/** Runs whole files until `isOver`, at least once. */
export async function repeatTest(file: string, isOver: () => boolean): Promise<Repeated> {
  const found: string[] = [];
  let runs = 0;
  do {
    const command = [process.execPath, 'test', `./${file}`, '--timeout', String(TIMEOUT_MS)];
    const child = Bun.spawn(command, { cwd: ROOT, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' });
    const [said, more] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    runs += 1;
    if ((await child.exited) !== 0) found.push(`${file}: ${`${said}${more}`.slice(-SHOWN_CHARACTERS)}`);
  } while (!isOver());
  return { runs, found };
}
