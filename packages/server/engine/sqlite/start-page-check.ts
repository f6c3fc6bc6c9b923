/** Looks at the pages of a data folder in a thread of its own, because SQLite blocks the thread that asks it, for minutes if there is much. */
import { dirname } from 'node:path';
import type { PageDamage, RowLook } from '../../core/inspection-ports.ts';
import type { PageCheckStep } from './page-check.ts';

/** The thread's first file. It lies beside this one, with the same name in the sources and in a build. */
const ENTRY = import.meta.url.endsWith('.ts') ? './page-check-thread.ts' : './page-check-thread.js';

/** `path`: the rows of the folder. Resolves with what is damaged; after an abort with what was found until then. */
export async function findPageDamage(
  path: string,
  { signal, onTable, isRepaired }: RowLook,
): Promise<readonly PageDamage[]> {
  const damage: PageDamage[] = [];
  if (signal.aborted) return damage;
  const thread = new Worker(new URL(ENTRY, import.meta.url));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  signal.addEventListener('abort', stop);
  thread.addEventListener('message', ({ data }: MessageEvent<PageCheckStep>) => {
    damage.push(...data.damage);
    if (data.table === undefined) resolve();
    else onTable(data.table);
  });
  thread.addEventListener('error', ({ message }) =>
    reject(new Error(`the thread that checks pages failed: ${message}`)),
  );
  thread.addEventListener('close', () => reject(new Error('the thread that checks pages has ended')));
  thread.postMessage({ dataDir: dirname(path), isRepaired });
  try {
    await promise;
    return damage;
  } finally {
    signal.removeEventListener('abort', stop);
    thread.terminate();
  }
}
