/** When a server counts as silent. */
import { expect, test } from 'bun:test';
import { until } from '../../../test/support/until.ts';
import { ServerWatch } from './server-watch.ts';

/** A body under way on a slow line, while small requests are answered or not. */
async function silenceOfSlowBody(isAnswered: boolean) {
  const watch = new ServerWatch();
  let probes = 0;
  const sent = Promise.withResolvers<Response>();
  const send = watch.over(async (_url, init) => {
    if (init?.method === 'PUT') return sent.promise;
    probes += 1;
    if (!isAnswered) throw new TypeError('planted: nothing came back');
    return new Response();
  }, 1);
  const put = send('http://server.test/uploads/x', { method: 'PUT', body: 'x' });
  const sentAt = performance.now();
  await until(() => probes >= 3);
  const sentMsMin = performance.now() - sentAt;
  const silentMs = watch.silentMs();
  const sentMsMax = performance.now() - sentAt;
  sent.resolve(new Response());
  await put;
  return { silentMs, sentMsMin, sentMsMax, restMs: watch.silentMs() };
}

test('a slow body is no silence while the server answers what is small', async () => {
  const { silentMs, sentMsMax, restMs } = await silenceOfSlowBody(true);
  expect(silentMs).toBeLessThan(sentMsMax);
  expect(restMs).toBe(0);
});

test('a server that answers nothing is silent since it was asked', async () => {
  const { silentMs, sentMsMin } = await silenceOfSlowBody(false);
  expect(silentMs).toBeGreaterThanOrEqual(sentMsMin);
});
