/**
 * `holdfast mcp` is killed while an agent writes: every answered version is there, and the tree holds nothing that was not
 * asked for.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { HOLDFAST } from './support/holdfast-command.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'mcp-killed';
const WRITERS = 3;
const ANSWERS_BEFORE_KILL = 7;
const ROUNDS_MAX = 1_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('mcp-killed');
});
afterAll(() => commands.remove());

test('kill -9 under writes loses no version that was answered, and leaves none half', async () => {
  const transport = new StdioClientTransport({
    command: HOLDFAST,
    args: ['mcp', 'kept'],
    env: { PATH: process.env.PATH ?? '', ...commands.environment(SPACE) },
    stderr: 'ignore',
  });
  const agent = new Client({ name: 'test', version: '1' });
  await agent.connect(transport);
  const answered = new Map<string, string>();
  const write = async (writer: number): Promise<void> => {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const message = `${writer}-${round}`;
      const files = ['a', 'b'].map((part) => ({ path: `kept/${message}/${part}`, text: message }));
      const call = { name: 'write', arguments: { files, message } };
      const answer = await agent.callTool(call).catch(() => undefined);
      if (answer === undefined) return;
      answered.set(message, (answer.structuredContent as { version: string }).version);
      // The others are in the midst of theirs.
      if (answered.size === ANSWERS_BEFORE_KILL) process.kill(transport.pid ?? 0, 'SIGKILL');
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
  const list = await commands.runWell(SPACE, 'snapshots', 'kept', '--json');
  const snapshots = JSON.parse(list) as readonly { id: string; message: string }[];
  const made = new Map(snapshots.map(({ id, message }) => [message, id]));
  for (const [message, version] of answered) expect([message, made.get(message)]).toEqual([message, version]);
  // Each writer waits for its answer, so that one write of each may be there without one.
  expect(made.size - answered.size).toBeLessThanOrEqual(WRITERS);
  const pulled = commands.fresh('pulled');
  await commands.runWell(SPACE, 'pull', 'kept', pulled, '--quiet');
  const folders = new Bun.Glob('*/*').scanSync(pulled);
  const wanted = [...made.keys()].flatMap((message) => [`${message}/a`, `${message}/b`]);
  expect([...folders].sort()).toEqual(wanted.sort());
});
