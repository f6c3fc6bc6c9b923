import { expect, test } from 'bun:test';
import { until } from '../../../test/support/until.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { Log } from '../log.ts';
import { startLoop } from './loop.ts';

function recordingLog(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  const record = (level: string) => (fields: object, message: string) => {
    lines.push(`${level} ${JSON.stringify(fields)} ${message}`);
  };
  return { log: { info: record('info'), error: record('error') } as unknown as Log, lines };
}

test('a failing step is logged once, tried again, and its end is logged', async () => {
  const { log, lines } = recordingLog();
  let steps = 0;
  const step = async (): Promise<number> => {
    steps += 1;
    if (steps >= 2 && steps <= 6) throw new Error('disk away');
    return 1;
  };
  const loop = startLoop({ name: 'sweep', log, step, retryMs: 1 });
  await until(() => steps > 10);
  await loop.stop();
  expect(lines).toHaveLength(2);
  expect(lines[0]).toStartWith('error');
  expect(lines[1]).toStartWith('info');
});

test('an engine that is away takes one short line, without a stack', async () => {
  const { log, lines } = recordingLog();
  const away = new StoreUnavailable('no answer', { cause: new Error('it hangs') });
  const step = (): Promise<number> => Promise.reject(away);
  const loop = startLoop({ name: 'sweep', log, step, retryMs: 1 });
  await until(() => lines.length > 0);
  await loop.stop();
  expect(lines).toEqual([
    'error {"loop":"sweep","reasons":["no answer","it hangs"]} background work failed; it will be tried again',
  ]);
});

test('stop waits for the step under way, and none follows', async () => {
  const { log } = recordingLog();
  let begun = 0;
  let ended = 0;
  const step = async (): Promise<number> => {
    begun += 1;
    await Bun.sleep(30);
    ended += 1;
    return 1;
  };
  const loop = startLoop({ name: 'scrub', log, step, retryMs: 1 });
  await until(() => begun === 1);
  await loop.stop();
  expect(ended).toBe(1);
  await Bun.sleep(50);
  expect(begun).toBe(1);
});

test('stop does not wait for ever for a step whose engine never answers', async () => {
  const { log } = recordingLog();
  let begun = 0;
  const step = (): Promise<number> => {
    begun += 1;
    return new Promise(() => undefined);
  };
  const loop = startLoop({ name: 'backups', log, step, retryMs: 1 });
  await until(() => begun === 1);
  await loop.stop();
  expect(begun).toBe(1);
});
