/** The start of the thread that looks at the pages of a data folder; start-page-check.ts starts it. */
import { parentPort } from 'node:worker_threads';
import { checkPages } from './page-check.ts';

if (parentPort === null) throw new Error('this file is started as a thread');
const port = parentPort;

port.once('message', ({ dataDir, isRepaired }: { dataDir: string; isRepaired: boolean }) => {
  for (const step of checkPages(dataDir, isRepaired)) port.postMessage(step);
  // Ends the thread, not the process.
  process.exit(0);
});
