/** Times calls of the writer, waits included, for the metrics, and names the Space whose counter was found broken. */
import { SECOND_MS } from '@holdfast/protocol';
import { nameSpace } from '../../core/invariant.ts';
import type { Space } from '../../core/model.ts';
import { SQL_DURATION } from '../../metrics/server-metrics.ts';

const SQL_SECONDS = SQL_DURATION.with({ engine: 'sqlite' });

/** In one step, because renewals come in great numbers. */
export function timed<T>(space: Space, ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const observe = (): void => SQL_SECONDS.observe((performance.now() - startedAt) / SECOND_MS);
  return ask().then(
    (value) => {
      observe();
      return value;
    },
    (error: unknown) => {
      observe();
      throw nameSpace(error, space);
    },
  );
}
