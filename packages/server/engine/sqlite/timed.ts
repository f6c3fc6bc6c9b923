/** How long the writer takes for what it is asked, with the waiting, for the metrics. */
import { SQL_DURATION } from '../../metrics/server-metrics.ts';

const MS_PER_SECOND = 1000;
const SQL_SECONDS = SQL_DURATION.with({ engine: 'sqlite' });

export function timed<T>(ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const answer = ask();
  const settled = (): void => SQL_SECONDS.observe((performance.now() - startedAt) / MS_PER_SECOND);
  answer.then(settled, settled);
  return answer;
}
