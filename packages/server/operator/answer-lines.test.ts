import { expect, test } from 'bun:test';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { answerInLines, LINES_MEDIA_TYPE, readAnswerLines } from './answer-lines.ts';
import { findChannel, openChannel } from './channel.ts';
import { OperatorError } from './problem.ts';

/** The runtime closes a connection after 10 s of silence. */
const IDLE_MS = 13_000;

test('a caller who waits is told the progress of the work, then its result', async () => {
  const heard = Promise.withResolvers<string>();
  const answer = answerInLines(
    async (report) => {
      report('begun');
      report('half\ndone');
      // The work ends only after its progress was received.
      return { heard: await heard.promise };
    },
    { 'cache-control': 'no-store' },
  );
  expect(answer.headers.get('content-type')).toBe(LINES_MEDIA_TYPE);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  const progress: string[] = [];
  const last = await readAnswerLines(answer.body, (line) => {
    progress.push(line);
    heard.resolve(line);
  });
  // Only the last report between two lines is sent.
  expect(progress).toEqual(['half\ndone']);
  expect(last).toEqual({ output: { heard: 'half\ndone' } });
});

test('while there is nothing to say empty lines keep the connection, also for longer than the runtime leaves one idle', async () => {
  const folder = makeTempFolder('answer-lines');
  const channel = openChannel(folder.path, async () =>
    answerInLines(() => Bun.sleep(IDLE_MS).then(() => 'done'), {}),
  );
  const socket = findChannel(folder.path);
  const answer = await fetch('http://localhost/', { unix: socket?.path } as RequestInit);
  const text = await answer.text();
  expect(text).toMatch(/^\n{3,}\{"output":"done"\}\n$/);
  expect(await readAnswerLines(new Response(text).body, () => undefined)).toEqual({ output: 'done' });
  socket?.close();
  await channel.close();
  folder.remove();
}, 60_000);

test('work that fails ends with its problem', async () => {
  const answer = answerInLines(() => Promise.reject(new OperatorError('CONFLICT', 'not now')), {});
  const last = await readAnswerLines(answer.body, () => undefined);
  expect(last).toMatchObject({ problem: { status: 409, code: 'CONFLICT', detail: 'not now' } });
});

test('an answer without its last line is an error, and a caller who leaves disturbs nobody', async () => {
  const cut = new Response('{"progress":"begun"}\n{"output":').body;
  await expect(readAnswerLines(cut, () => undefined)).rejects.toThrow('ended early');
  const done = Promise.withResolvers<void>();
  const left = answerInLines(() => done.promise, {}).body;
  await left?.cancel();
  done.resolve();
  await Bun.sleep(0);
});
