/** Assigns each background task to one of several processes. Two processes doing it for a while is harmless. */

export type BackgroundTask = 'sweep' | 'scrub' | 'compact' | 'gc';

export interface BackgroundTurns {
  /** Takes or renews the turn; undefined if another process has it. */
  take(task: BackgroundTask): Promise<BackgroundTurn | undefined>;
  /** Stores the task's position for the next process that takes the turn. Does nothing if another process has it now. */
  note(task: BackgroundTask, position: string | undefined): Promise<void>;
  /** Releases all turns of this process, so that another can take them at once. */
  release(): Promise<void>;
}

interface BackgroundTurn {
  /** the task's position in its own format; undefined at the beginning */
  readonly position: string | undefined;
}

/** Turns for a process that does not share its stores. Positions are lost when it ends. */
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

export const NO_TURNS: BackgroundTurns = {
  take: async () => undefined,
  note: async () => undefined,
  release: async () => undefined,
};
