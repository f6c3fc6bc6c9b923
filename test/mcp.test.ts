/** `holdfast mcp` by the official client over a real process and a real server: calls, refusals, and its end. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { HOLDFAST } from './support/holdfast-command.ts';
import { makeIssuer } from './support/issuer.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'mcp';
const UNREACHABLE = 'http://127.0.0.1:9';
let commands: TreeCommands;
let agent: Agent;

/** The official client with a door of its own. */
class Agent {
  readonly client = new Client({ name: 'test', version: '1' });
  readonly transport: StdioClientTransport;
  said = '';

  constructor(args: readonly string[], environment: Record<string, string>) {
    const env = { PATH: process.env.PATH ?? '', ...environment };
    this.transport = new StdioClientTransport({
      command: HOLDFAST,
      args: ['mcp', ...args],
      env,
      stderr: 'pipe',
    });
    this.transport.stderr?.on('data', (chunk: Buffer) => {
      this.said += chunk.toString();
    });
  }

  static async start(
    args: readonly string[] = [],
    environment = commands.environment(SPACE),
  ): Promise<Agent> {
    const agent = new Agent(args, environment);
    await agent.client.connect(agent.transport);
    return agent;
  }

  async call(name: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { isError, content, structuredContent } = await this.client.callTool({ name, arguments: args });
    const [only] = content;
    const text = only?.type === 'text' ? only.text : '';
    if (isError) throw new Error(`refused: ${text}`);
    expect(JSON.parse(text)).toEqual(structuredContent);
    return structuredContent as Record<string, unknown>;
  }

  refusal(name: string, args: Record<string, unknown>): Promise<string> {
    return this.call(name, args).then(
      () => 'it was done',
      (error: Error) => error.message,
    );
  }
}

beforeAll(async () => {
  commands = await TreeCommands.start('mcp');
  agent = await Agent.start();
});
afterAll(async () => {
  await agent.client.close();
  await commands.remove();
});

test('files are written in one version, looked at, changed and restored', async () => {
  const files = [
    { path: 'work/d/a.md', text: 'one\ntwo ä\n' },
    { path: 'work/bin', base64: 'AAH/', executable: true },
  ];
  const first = await agent.call('write', { files, message: 'both' });
  expect(await agent.call('list', {})).toEqual({
    entries: [{ name: 'work', kind: 'directory', bytes: 14 }],
    more: false,
  });
  expect(await agent.call('list', { path: 'work' })).toEqual({
    entries: [
      { name: 'bin', kind: 'file', bytes: 3 },
      { name: 'd', kind: 'directory', bytes: 11 },
    ],
    more: false,
  });
  expect(await agent.call('read', { path: 'work/bin' })).toEqual({ base64: 'AAH/', total: 3, more: false });
  const edits = [
    { oldText: 'two', newText: 'three' },
    { oldText: 'one\nthree', newText: '3' },
  ];
  await agent.call('edit', { path: 'work/d/a.md', edits, message: 'edited' });
  expect(await commands.runWell(SPACE, 'cat', 'work/d/a.md')).toBe('3 ä\n');
  await agent.call('move', { from: 'work/bin', to: 'work/e/f/bin' });
  const last = await agent.call('remove', { path: 'work/d' });
  const { versions } = (await agent.call('history', { name: 'work' })) as {
    versions: { id: string; message: string }[];
  };
  expect(versions.map(({ message }) => message)).toEqual(['', '', 'edited', 'both']);
  expect([versions[0]?.id, versions[3]?.id]).toEqual([last.version as string, first.version as string]);
  const { changes } = (await agent.call('diff', { name: 'work', from: first.version })) as {
    changes: object[];
  };
  expect(changes).toContainEqual({ type: 'renamed', path: 'work/e/f/bin', from: 'work/bin' });
  expect(changes).toContainEqual({ type: 'removed', path: 'work/d/a.md' });
  await agent.call('restore', { name: 'work', version: first.version, path: 'work/d/a.md' });
  expect(await agent.call('read', { path: 'work/d/a.md' })).toMatchObject({ text: 'one\ntwo ä\n' });
  const whole = await agent.call('restore', { name: 'work', version: first.version, message: 'undone' });
  expect(whole.root).toBe(first.root);
  expect(await agent.call('diff', { name: 'work', from: first.version })).toEqual({ changes: [] });
});

test('names and text are found, and pages follow each other', async () => {
  const files = Array.from({ length: 256 }, (_, index) => ({
    path: `many/${index}.txt`,
    text: `line\nfile ${index}`,
  }));
  for (const folder of ['a', 'b', 'c', 'd'])
    await agent.call('write', {
      files: files.map((file) => ({ ...file, path: file.path.replace('/', `/x${folder}`) })),
    });
  expect(await agent.call('search', { path: 'many', text: 'file 25', names: 'xa25?.txt', limit: 2 })).toEqual(
    {
      matches: [250, 251].map((index) => ({ path: `many/xa${index}.txt`, line: 2, text: `file ${index}` })),
      more: true,
    },
  );
  expect(await agent.call('search', { path: 'many', names: '*c7.*' })).toEqual({
    matches: [{ path: 'many/xc7.txt' }],
    more: false,
  });
  const seen: string[] = [];
  for (let cursor: unknown; cursor !== false; ) {
    const page = await agent.call('list', { path: 'many', ...(cursor === undefined ? {} : { cursor }) });
    seen.push(...(page.entries as { name: string }[]).map(({ name }) => name));
    cursor = page.more;
  }
  expect([seen.length, new Set(seen).size]).toEqual([1024, 1024]);
});

test('a large file is read in pieces', async () => {
  // A piece of the usual length ends within a character.
  const text = `abc${'ä"x\n'.repeat(160_000)}`;
  await agent.call('write', { files: [{ path: 'large/f', text }] });
  let read = Buffer.alloc(0);
  for (let more: unknown = true; more; ) {
    const piece = await agent.call('read', { path: 'large/f', offset: read.length });
    expect(piece.total).toBe(800_003);
    read = Buffer.concat([read, Buffer.from(piece.text as string)]);
    more = piece.more;
  }
  expect(read.toString()).toBe(text);
  expect(await agent.call('read', { path: 'large/f', offset: 1, length: 3 })).toEqual({
    base64: Buffer.from(text).subarray(1, 4).toString('base64'),
    total: 800_003,
    more: true,
  });
  // A pattern over so much text must not give up.
  const base64 = Buffer.alloc(6 * 1024 * 1024, 'holdfast').toString('base64');
  await agent.call('write', { files: [{ path: 'large/b', base64 }] });
  expect(await agent.call('read', { path: 'large/b', length: 1 })).toMatchObject({ total: 6 * 1024 * 1024 });
  const control = await agent.call('write', {
    files: [{ path: 'large/c', text: '\u0001'.repeat(1024 * 1024) }],
  });
  expect(control.version).toBeString();
  expect(await agent.call('read', { path: 'large/c', length: 1024 * 1024 })).toMatchObject({ more: false });
});

test('files are resources', async () => {
  const agent = await Agent.start(['res']);
  await agent.call('write', { files: [{ path: 'res/a b/%2f', text: 'r' }] });
  const { resources } = await agent.client.listResources();
  const uri = 'holdfast://res/a%20b/%252f';
  expect(resources.map((each) => each.uri)).toContain(uri);
  expect(await agent.client.readResource({ uri })).toMatchObject({ contents: [{ uri, text: 'r' }] });
  for (const bad of [
    'holdfast://res/a%20b',
    'holdfast://res/a%20b%2f%252f',
    'holdfast://res/..',
    'holdfast://res/%00',
    'file:///x',
  ])
    await expect(agent.client.readResource({ uri: bad })).rejects.toThrow();
  await agent.client.close();
});

test('what cannot be is refused by a sentence, and nothing changes', async () => {
  const { version } = await agent.call('write', { files: [{ path: 'kept/f', text: 'aa' }] });
  const refused: readonly [string, Record<string, unknown>, RegExp][] = [
    ['read', { path: 'kept/../f' }, /'\.\.'/],
    ['read', { path: 'kept/f\u0000' }, /NUL/],
    ['read', { path: `kept/${'a/'.repeat(2046)}` }, /4096/],
    ['read', { path: `kept/${'a'.repeat(256)}` }, /255/],
    ['read', { path: 'kept//f' }, /empty/],
    ['read', { path: 7 }, /must be string/],
    ['read', {}, /path is missing/],
    ['read', { path: 'kept/f', more: 1 }, /"more"/],
    ['read', { path: 'kept/f', length: 1024 * 1024 + 1 }, /at most/],
    ['read', { path: 'kept' }, /is a folder/],
    ['read', { path: 'none/f' }, /no name none/],
    ['read', { path: 'kept/f', version: '0123456789abcdef' }, /no version/],
    ['list', { path: 'kept/f' }, /no folder/],
    ['write', { files: [] }, /at least 1/],
    [
      'write',
      {
        files: [
          { path: 'kept/g', text: 'g' },
          { path: 'kept/f/g', text: '' },
        ],
      },
      /through a file/,
    ],
    [
      'write',
      {
        files: [
          { path: 'kept/g', text: 'g' },
          { path: 'other/g', text: '' },
        ],
      },
      /one name/,
    ],
    [
      'write',
      {
        files: [
          { path: 'kept/g', text: 'g' },
          { path: 'kept/g', text: '' },
        ],
      },
      /twice/,
    ],
    ['write', { files: [{ path: 'kept/g', base64: '?' }] }, /base64/],
    ['write', { files: [{ path: 'kept/g' }] }, /text or base64/],
    ['write', { files: [{ path: 'kept/g', text: 'x'.repeat(8 * 1024 * 1024 + 1) }] }, /at most 8388608/],
    ['write', { files: [{ path: 'kept/g', text: '' }], message: 'ä'.repeat(600) }, /1,?024/],
    [
      'write',
      { files: Array.from({ length: 257 }, (_, at) => ({ path: `kept/${at}`, text: '' })) },
      /at most 256/,
    ],
    ['edit', { path: 'kept/f', edits: [{ oldText: 'a', newText: 'b' }] }, /more than once/],
    [
      'edit',
      {
        path: 'kept/f',
        edits: [
          { oldText: 'aa', newText: 'b' },
          { oldText: 'aa', newText: '' },
        ],
      },
      /does not stand/,
    ],
    ['move', { from: 'kept/f', to: 'kept/f' }, /itself/],
    ['remove', { path: 'kept' }, /is a name/],
    ['restore', { name: 'kept', version, path: 'kept/g' }, /does not exist/],
    ['search', { path: 'kept', text: 'a\nb' }, /line break/],
    ['nothing', {}, /no tool/],
  ];
  for (const [name, args, reason] of refused) expect(await agent.refusal(name, args)).toMatch(reason);
  expect(await agent.call('history', { name: 'kept' })).toMatchObject({ versions: [{ id: version }] });
});

test('of two doors that change one file, both win', async () => {
  await agent.call('write', { files: [{ path: 'race/f', text: 'a b' }] });
  const other = await Agent.start(['race']);
  const change = (who: Agent, oldText: string, newText: string) =>
    who.call('edit', { path: 'race/f', edits: [{ oldText, newText }] });
  await Promise.all([change(agent, 'a', 'A'), change(other, 'b', 'B')]);
  expect(await commands.runWell(SPACE, 'cat', 'race/f')).toBe('A B');
  expect(await other.refusal('read', { path: 'kept/f' })).toContain('no name kept');
  expect(await other.refusal('write', { files: [{ path: 'kept/f', text: '' }] })).toContain('kept');
  await other.client.close();
});

test('a token that only reads gets no tool that writes', async () => {
  const permissions = ['cas:nodes:read', 'cas:root-refs:read'];
  const HOLDFAST_TOKEN = commands.running.issuer.token(SPACE, { permissions });
  const reader = await Agent.start([], { ...commands.environment(SPACE), HOLDFAST_TOKEN });
  const { tools } = await reader.client.listTools();
  expect(tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint])).toEqual(
    ['list', 'read', 'history', 'diff', 'search'].map((name) => [name, true]),
  );
  expect(await reader.refusal('write', { files: [{ path: 'x/y', text: '' }] })).toContain('only reads');
  expect(reader.said).toContain('read-only');
  await reader.client.close();
  const without = {
    ...commands.environment(SPACE),
    HOLDFAST_TOKEN: commands.running.issuer.token(SPACE, { permissions: [] }),
  };
  await expect(Agent.start([], without)).rejects.toThrow();
});

test('while the server refuses the token or is away calls fail; a renewed token is taken', async () => {
  const file = commands.fresh('token');
  writeFileSync(file, makeIssuer().token(SPACE), { mode: 0o600 });
  const { HOLDFAST_TOKEN, ...environment } = commands.environment(SPACE);
  const renewed = await Agent.start(['--token-file', file], environment);
  expect(await renewed.refusal('list', {})).toContain('the server cannot be reached, or refuses');
  writeFileSync(file, HOLDFAST_TOKEN ?? '');
  await until(async () => (await renewed.refusal('list', {})) === 'it was done');
  await renewed.client.close();
  const away = await Agent.start([], {
    ...environment,
    HOLDFAST_TOKEN: HOLDFAST_TOKEN ?? '',
    HOLDFAST_URL: UNREACHABLE,
  });
  expect(await away.refusal('list', {})).toContain('the server cannot be reached, or refuses');
  await away.client.close();
});

async function speak(
  lines: readonly string[],
): Promise<{ answers: Record<string, unknown>[]; exitCode: number }> {
  const door = Bun.spawn([HOLDFAST, 'mcp'], {
    env: { PATH: process.env.PATH ?? '', ...commands.environment(SPACE) },
    stdin: Buffer.from(lines.join('\n')),
    stdout: 'pipe',
    stderr: 'ignore',
  });
  const said = await new Response(door.stdout).text();
  const answers = said
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { answers, exitCode: await door.exited };
}

test('stdout has JSON-RPC alone, and the end of stdin waits for answers', async () => {
  const ask = (id: number, method: string, params: object): string =>
    JSON.stringify({ jsonrpc: '2.0', id, method, params });
  const clientInfo = { name: 'raw', version: '1' };
  const { answers, exitCode } = await speak([
    ask(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }),
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    'this is no JSON',
    '[]',
    '{"jsonrpc":"2.0","id":9,"method":5}',
    '['.repeat(100_000),
    `"${'x'.repeat(10 * 1024 * 1024)}"`,
    ask(2, 'tools/call', { name: 'write', arguments: { files: [{ path: 'raw/f', text: 'r' }] } }),
    ask(3, 'tools/call', { name: 'read', arguments: { path: 'raw/f' } }),
    ask(4, 'tools/call', { name: 'read', arguments: [] }),
    ask(5, 'no/method', {}),
  ]);
  expect([exitCode, answers.every(({ jsonrpc }) => jsonrpc === '2.0')]).toEqual([0, true]);
  const byId = Map.groupBy(answers, ({ id }) => id);
  expect([1, 2, 3, 4, 5, 9].map((id) => byId.get(id)?.length)).toEqual([1, 1, 1, 1, 1, 1]);
  expect(byId.get(1)?.[0]).toMatchObject({ result: { serverInfo: { name: 'holdfast' } } });
  expect(byId.get(3)?.[0]).toMatchObject({ result: { structuredContent: { text: 'r' } } });
  expect(byId.get(null)?.length).toBe(4);
});

test('a signal ends it as the end of stdin does', async () => {
  const door = Bun.spawn([HOLDFAST, 'mcp'], {
    env: { PATH: process.env.PATH ?? '', ...commands.environment(SPACE) },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  door.stdin.write('no JSON\n');
  door.stdin.flush();
  for await (const _ of door.stdout) break;
  door.kill('SIGTERM');
  expect(await door.exited).toBe(0);
});
