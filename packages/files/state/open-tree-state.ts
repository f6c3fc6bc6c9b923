/** Opens the state of a path: a file that no other push holds, and the one with an open commit first. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FolderState } from '../push/folder-state.ts';
import { MemoryState } from '../push/memory-state.ts';
import { TreeStateBusyError } from '../push/state-failure.ts';
import { makeCacheFolder, stateFileName, TREES_PART } from './cache-folder.ts';
import { TreeState } from './tree-state.ts';

/** Pushes of one path at the same time. */
const SLOTS_MAX = 16;

export interface TreeStateOptions {
  readonly cacheFolder: string;
  /** absolute */
  readonly path: string;
  readonly recordsMtime: boolean;
  /** Take up the state in which a commit of this scope is open, if there is one. */
  readonly commitScope?: string | undefined;
}

/** Throws TreeStateBusyError when too many pushes of this path run, or what the system says of the folder. */
export function openTreeState(options: TreeStateOptions): TreeState {
  const { cacheFolder, path, recordsMtime, commitScope } = options;
  const folder = makeCacheFolder(cacheFolder, TREES_PART);
  let free: TreeState | undefined;
  for (let slot = 0; slot < SLOTS_MAX; slot += 1) {
    const file = join(folder, stateFileName(path, recordsMtime, slot));
    if (free !== undefined && !existsSync(file)) break;
    const state = openUnlessBusy(file);
    if (state === undefined) continue;
    if (commitScope === undefined) return state;
    if (state.findCommit(commitScope) !== undefined) {
      free?.close();
      return state;
    }
    if (free === undefined) free = state;
    else state.close();
  }
  if (free !== undefined) return free;
  throw new TreeStateBusyError(`${SLOTS_MAX} pushes of this path are running`);
}

/** A state that is gone when it is closed, for when the cache folder cannot be used: in a temporary file, or else in memory. */
export function openTemporaryState(): FolderState {
  try {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-state-'));
    return TreeState.open(join(folder, 'state.sqlite'), () =>
      rmSync(folder, { recursive: true, force: true }),
    );
  } catch {
    // The temporary folder has no room either: most pushes come here because a disk is full.
    return new MemoryState();
  }
}

function openUnlessBusy(file: string): TreeState | undefined {
  try {
    return TreeState.open(file);
  } catch (error) {
    if (error instanceof TreeStateBusyError) return undefined;
    throw error;
  }
}
