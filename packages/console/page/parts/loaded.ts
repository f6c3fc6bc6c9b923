/** Data of a view from a server: not there yet, there, or failed; loaded again after a while. */
import { useEffect, useRef, useState } from 'preact/hooks';

/** Between two looks of a view that shows what happens now. */
export const REFRESH_MS = 5_000;

export interface Loaded<T> {
  /** the last that came; stays while it is asked for again */
  readonly data: T | undefined;
  /** why the last attempt failed */
  readonly error: unknown;
  readonly isLoading: boolean;
  reload(): void;
}

interface State<T> {
  readonly key: string;
  readonly data: T | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
}

/** Loads when `key` changes, and every `everyMs` while the page is looked at. An answer for a former key is dropped. */
export function useLoaded<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  options: { readonly everyMs?: number } = {},
): Loaded<T> {
  const { everyMs } = options;
  const fresh: State<T> = { key, data: undefined, error: undefined, isLoading: true };
  const [state, setState] = useState<State<T>>(fresh);
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const ending = new AbortController();
    setState((before) => (before.key === key ? { ...before, isLoading: true } : { ...fresh }));
    latest.current(ending.signal).then(
      (data) => ending.signal.aborted || setState({ key, data, error: undefined, isLoading: false }),
      (error: unknown) =>
        ending.signal.aborted || setState((before) => ({ ...before, key, error, isLoading: false })),
    );
    return () => ending.abort();
  }, [key, round]);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => document.hidden || setRound((before) => before + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  const { data, error, isLoading } = state.key === key ? state : fresh;
  return { data, error, isLoading, reload: () => setRound((before) => before + 1) };
}

export interface Action {
  readonly isRunning: boolean;
  readonly error: unknown;
  /** Runs `work` unless one runs; resolves with whether it went well. */
  run(work: () => Promise<void>): Promise<boolean>;
  clear(): void;
}

export function useAction(): Action {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const running = useRef(false);
  const run = async (work: () => Promise<void>): Promise<boolean> => {
    if (running.current) return false;
    running.current = true;
    setRunning(true);
    setError(undefined);
    try {
      await work();
      return true;
    } catch (caught) {
      setError(caught);
      return false;
    } finally {
      running.current = false;
      setRunning(false);
    }
  };
  return { isRunning, error, run, clear: () => setError(undefined) };
}
