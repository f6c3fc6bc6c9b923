import { expect, test } from 'bun:test';
import { until } from '../../../test/support/until.ts';
import type { Connections } from './peer.ts';
import { SentAnswers } from './sent-answers.ts';

const SPACE = { appId: 'app', spaceId: 'space' };
const REQUEST = new Request('http://h/');

function openAnswers() {
  const answers = new SentAnswers({ resource: 'tested answers', capacity: 100, waitMsMax: 5 });
  let isOpen = true;
  const connections: Connections = {
    timeout: () => undefined,
    requestIP: () => (isOpen ? { address: '192.0.2.1' } : null),
  };
  const end = (): void => {
    isOpen = false;
  };
  return { answers, connections, end };
}

test('an answer counts as being sent until the runtime knows no connection for its request', async () => {
  const { answers, connections, end } = openAnswers();
  answers.releaseOnceSent(REQUEST, connections, await answers.reserve(SPACE, 60));
  await expect(Promise.try(() => answers.reserve(SPACE, 60))).rejects.toThrow('is used up');
  expect(answers.used).toBe(60);
  end();
  await until(() => answers.used === 0);
});

test('room that a sent answer frees is found at once, before the next look', async () => {
  const { answers, connections, end } = openAnswers();
  answers.releaseOnceSent(REQUEST, connections, await answers.reserve(SPACE, 60));
  end();
  const hold = answers.reserve(SPACE, 60);
  expect(hold).not.toBeInstanceOf(Promise);
  (await hold).release();
});

test('an answer without a connection is not waited for', async () => {
  const { answers } = openAnswers();
  answers.releaseOnceSent(REQUEST, undefined, await answers.reserve(SPACE, 60));
  expect(answers.used).toBe(0);
});
