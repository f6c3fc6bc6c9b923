/** A push that begins anew tells no nonsense: counters and totals that fit each other. */
import { expect, test } from 'bun:test';
import { type ProgressEvent, startProgress } from '@holdfast/client';
import { RoundProgress } from './push-folder.ts';

test('a second round counts only what goes beyond the first, of the tree as it is then', () => {
  const events: ProgressEvent[] = [];
  const progress = startProgress({ job: 'push', subject: 'home', onEvent: (event) => events.push(event) });
  const rounds = new RoundProgress(progress);
  const first = rounds.startRound();
  first.phase('scan');
  first.expect({ files: 10, bytes: 1_000 });
  first.phase('transfer');
  first.count({ files: 4, bytes: 400, deduplicatedBytes: 100, requests: 3 });

  const second = rounds.startRound();
  second.phase('scan');
  second.expect({ files: 1, bytes: 5 });
  second.expect({ files: 12, bytes: 1_200 });
  second.phase('negotiate');
  second.count({ files: 3, bytes: 300, deduplicatedBytes: 300, requests: 1 });
  second.count({ files: 9, bytes: 900, deduplicatedBytes: 150, requests: 2 });
  progress.done();

  expect(events.at(-1)).toMatchObject({
    type: 'done',
    counters: { files: 12, bytes: 1_200, deduplicatedBytes: 250, requests: 6 },
  });
  expect(events.at(-2)).toMatchObject({ type: 'progress', totals: { files: 12, bytes: 1_200 } });
});

test('while the tree is read again, the totals of the round before stand', () => {
  const events: ProgressEvent[] = [];
  const progress = startProgress({ job: 'push', subject: 'home', onEvent: (event) => events.push(event) });
  const rounds = new RoundProgress(progress);
  rounds.startRound().expect({ files: 10, bytes: 1_000 });
  const second = rounds.startRound();
  second.phase('scan');
  second.expect({ files: 1, bytes: 5 });
  progress.fail('enough');
  expect(events.at(-2)).toMatchObject({ type: 'progress', totals: { files: 10, bytes: 1_000 } });
});
