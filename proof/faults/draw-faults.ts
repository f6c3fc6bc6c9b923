/** Faults of system calls, as `inject=` of strace takes them. */
import { existsSync, readFileSync } from 'node:fs';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import { ROOT } from '../../test/support/server-process.ts';

/** What a disk or a kernel answers. A write that is short cannot be injected: strace leaves the call out, and says that it was made. */
const ERRORS: Readonly<Record<string, readonly string[]>> = {
  fsync: ['EIO', 'ENOSPC', 'EDQUOT', 'EINTR'],
  fdatasync: ['EIO', 'ENOSPC'],
  pwrite64: ['EIO', 'ENOSPC', 'EDQUOT', 'EINTR'],
  pread64: ['EIO', 'EINTR'],
  ftruncate: ['EIO', 'EINTR'],
  rename: ['EIO', 'ENOSPC', 'EDQUOT'],
  link: ['EIO', 'ENOSPC', 'EDQUOT'],
  unlink: ['EIO'],
  openat: ['EMFILE', 'EIO', 'EINTR'],
  mkdir: ['ENOSPC', 'EIO'],
};

export interface FaultsWanted {
  readonly kinds: number;
  /** the first call that may fail is below it, for each thread */
  readonly firstMax: number;
  /** every so many calls fail then; left out: one fails */
  readonly everyMax?: number;
  /** of a process that has begun; left out: any of one that is started */
  readonly calls?: readonly string[];
}

/** A server goes on when one of them fails: they are calls on the files of nodes, which it can refuse. */
export const FILE_CALLS = ['rename', 'link', 'unlink', 'openat', 'mkdir'];
export const ALL_CALLS = Object.keys(ERRORS);

/** At least half of `firstMax` calls go well before. */
export function drawFaults(
  random: SeededRandom,
  { kinds, firstMax, everyMax, calls }: FaultsWanted,
): string[] {
  const left = [...(calls ?? ALL_CALLS)];
  return Array.from({ length: kinds }, () => {
    const [call = ''] = left.splice(random.below(left.length), 1);
    // A command opens hundreds of its own files before it begins.
    const first =
      1 + random.below(firstMax) + (calls === undefined && call === 'openat' ? OPENED_BY_THE_RUNTIME : 0);
    const every = everyMax === undefined ? '' : `+${2 + random.below(everyMax)}`;
    return `${call}:error=${random.pick(ERRORS[call] ?? [])}:when=${first}${every}`;
  });
}

const OPENED_BY_THE_RUNTIME = 60;

/** The runtime did not get one of its own files, or of these sources: no line of the product has run. */
export const isOfRuntime = (said: string): boolean =>
  said.includes('error while loading shared libraries') ||
  said.includes('/bunfig.toml') ||
  [`${ROOT}/node_modules/`, `${ROOT}/packages/`].some((folder) => said.includes(folder));

export const countInjected = (trace: string): number =>
  existsSync(trace) ? readFileSync(trace, 'latin1').split('(INJECTED)').length - 1 : 0;
