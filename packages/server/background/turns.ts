/** Decides which of several processes does a background task now. It does no harm if two do it for a while. */

export type BackgroundTask = 'sweep' | 'scrub' | 'compact' | 'gc';

export interface BackgroundTurns {
  /** Takes the turn, or renews it for a while; `undefined`: another process has it. */
  take(task: BackgroundTask): Promise<BackgroundTurn | undefined>;
  /** Stores how far the task has come, for the next process that has the turn. Does nothing if another process has it now. */
  note(task: BackgroundTask, position: string | undefined): Promise<void>;
  /** Gives up all turns of this process, so that another may take them at once. */
  release(): Promise<void>;
}

interface BackgroundTurn {
  /** how far the task has come, in a form of its own; undefined: at its beginning */
  readonly position: string | undefined;
}

/** The turns of a process that shares its stores with no other. Positions are lost with the process. */
export function makeLocalTurns(): BackgroundTurns {
  const positions = new Map<BackgroundTask, string | undefined>();
  return {
    take: async (task) => ({ position: positions.get(task) }),
    note: async (task, position) => {
      positions.set(task, position);
    },
    release: async () => undefined,
  };
}

/** The turns of a process that never gets one: a worker that does no background work. */
export const NO_TURNS: BackgroundTurns = {
  take: async () => undefined,
  note: async () => undefined,
  release: async () => undefined,
};
