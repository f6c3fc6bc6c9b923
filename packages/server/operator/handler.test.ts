import { expect, test } from 'bun:test';
import { pino } from 'pino';
import { createOperatorHandler, type OperatorHandlerParts } from './handler.ts';

test('what nobody foresaw is in the log, as the answer says, also where no operation was called', async () => {
  const lines: string[] = [];
  const parts = {
    context: { log: pino({}, { write: (line: string) => void lines.push(line) }) },
    isLoopback: true,
    consoleReach: {
      spaceUrl: () => {
        throw new Error('planted');
      },
    },
  };
  const handle = createOperatorHandler(parts as unknown as OperatorHandlerParts);
  const answer = await handle(new Request('http://localhost/', { headers: { host: 'localhost' } }));
  expect([answer.status, await answer.json()]).toMatchObject([500, { code: 'INTERNAL_ERROR' }]);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { requestId: answer.headers.get('x-request-id'), err: { message: 'planted' } },
  ]);
});
