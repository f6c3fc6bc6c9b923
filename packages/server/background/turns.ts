/** Of the processes that share engines, which one does a kind of background work now. Harmless when two do for a while. */

export type BackgroundTask = 'sweep' | 'scrub';

export interface BackgroundTurns {
  /** Takes the turn or keeps it for a while; `undefined`: another process has it. */
  take(task: BackgroundTask): Promise<BackgroundTurn | undefined>;
  /** Notes how far the task has come, for whoever has the turn next; nothing, once the turn is another's. */
  note(task: BackgroundTask, position: string | undefined): Promise<void>;
  /** Gives the turns of this process to whoever asks next. */
  release(): Promise<void>;
}

interface BackgroundTurn {
  /** how far the task has come, in its own words; undefined: at its beginning */
  readonly position: string | undefined;
}

/** The turns of a process that shares with nobody; they begin anew with it. */
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

/** Of a process that never has one: a worker beside the one that does the background work. */
export const NO_TURNS: BackgroundTurns = {
  take: async () => undefined,
  note: async () => undefined,
  release: async () => undefined,
};
