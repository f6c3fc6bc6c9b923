/**
 * The start of every process of `holdfast`, whether from a checkout, an npm package or the executable. It loads little, because
 * a process that lacks settings of the runtime, as the executable does, replaces itself: the same process, with the same signals
 * and exit codes.
 */
import { ownStandardStreams, replaceProcess } from './inherited-descriptors.ts';
import { findOwnProgram, WORKER_ARGUMENT } from './own-program.ts';
import { planRuntimeSettings } from './runtime-settings.ts';
import { beforeInterruptedEnd } from './terminal/interruption.ts';

const args = process.argv.slice(2);

/** Returns only if the process could not be replaced. It goes on without the settings then: they only make it faster. */
function startAgainWith(settings: Readonly<Record<string, string>>): void {
  const [program, ...first] = findOwnProgram();
  replaceProcess(program, [process.argv0, ...first, ...args], { ...process.env, ...settings });
}

const isWorker = args[0] === WORKER_ARGUMENT && process.send !== undefined;
if (isWorker) {
  // Its variables are those of its server.
  const server = await import('@holdfast/server');
  await server.runWorker();
} else {
  const settings = planRuntimeSettings(args, process.env);
  if (Object.keys(settings).length > 0) startAgainWith(settings);
  beforeInterruptedEnd(ownStandardStreams());
  await import('./main.ts');
}
