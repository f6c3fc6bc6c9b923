/** The commands about names: what they print for people and as JSON, and their messages when something is wrong. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CATALOG_CONTENT_TYPE, createClient } from '../packages/client/internal.ts';
import { APP } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'names';
let commands: TreeCommands;
let source: string;
/** of three pushes under `home`: `a`, then `b`, then `b` again */
let ids: string[];
let roots: string[];

beforeAll(async () => {
  commands = await TreeCommands.start('names-commands');
  source = commands.fresh('source');
  mkdirSync(join(source, 'sub'), { recursive: true });
  const pushes: { root: string; snapshot: { id: string } }[] = [];
  for (const text of ['a', 'b', 'b']) {
    writeFileSync(join(source, 'sub', 'file'), text);
    pushes.push(JSON.parse(await commands.runWell(SPACE, 'push', source, '--name', 'home', '--json')));
  }
  ids = pushes.map(({ snapshot }) => snapshot.id);
  roots = pushes.map(({ root }) => root);
});
afterAll(() => commands.remove());

const day = (): string => new Date().toISOString().slice(0, 10);

describe('names', () => {
  test('are listed as the catalog has them; an unchanged tree adds a snapshot and no root ref', async () => {
    const entries = JSON.parse(await commands.runWell(SPACE, 'snapshots', 'home', '--json'));
    expect(entries.map(({ id }: { id: string }) => id)).toEqual(ids);
    expect(Object.keys(entries[0])).toEqual(['id', 'name', 'root', 'time', 'host', 'path', 'bytes']);
    expect(entries[2]).toMatchObject({ name: 'home', root: roots[2], path: source, bytes: 1 });
    expect([roots[1] === roots[2], new Set(ids).size]).toEqual([true, 3]);
    const { items } = JSON.parse(await commands.runWell(SPACE, 'refs', 'list', '--json'));
    expect(items.map(({ refCount }: { refCount: number }) => refCount)).toEqual([1]);
    const table = await commands.runWell(SPACE, 'snapshots');
    expect(table.split('\n').length).toBe(5);
    expect(table).toContain(`home  ${ids[0]}`);
  });

  test('are listed after a folder of links too, whose nodes have a content type as long as that of a list', async () => {
    const folder = commands.fresh('links');
    mkdirSync(folder);
    // Long enough to be compressed: the server gives the memory of such a node back once it is judged.
    symlinkSync('../'.repeat(1_000), join(folder, 'link'));
    for (const name of ['links', 'again']) {
      await commands.runWell('links', 'push', folder, '--name', name, '--no-cache');
      const entries = JSON.parse(await commands.runWell('links', 'snapshots', name, '--json'));
      expect(entries).toHaveLength(1);
    }
  });

  test('are accepted wherever a hash is', async () => {
    expect(await commands.runWell(SPACE, 'cat', 'home/sub/file')).toBe('b');
    expect(await commands.runWell(SPACE, 'cat', `home@${ids[0]}/sub/file`)).toBe('a');
    expect(await commands.runWell(SPACE, 'cat', `home@${ids[0]?.slice(0, 8)}/sub/file`)).toBe('a');
    expect(await commands.runWell(SPACE, 'cat', `home@${day()}/sub/file`)).toBe('b');
    expect(await commands.runWell(SPACE, 'cat', `${roots[0]?.slice(0, 10)}/sub/file`)).toBe('a');
    expect(await commands.runWell(SPACE, 'diff', `home@${ids[0]}`, 'home')).toBe('M sub/file\n');
    expect(JSON.parse(await commands.runWell(SPACE, 'node', 'stat', 'home', '--json')).metadata.hash).toBe(
      roots[2] as string,
    );
    const target = commands.fresh();
    await commands.runWell(SPACE, 'pull', `home@${ids[0]}/sub`, target, '--quiet');
    expect(readFileSync(join(target, 'file'), 'utf8')).toBe('a');
    await commands.runWell(SPACE, 'refs', 'update', 'home=+1');
    await commands.runWell(SPACE, 'refs', 'update', `${roots[2]}=-1`);
    const bundle = commands.fresh();
    await commands.runWell(SPACE, 'bundle', 'create', 'home', '--out', bundle, '--quiet');
  });

  test('that are unknown or malformed are refused with a suggestion', async () => {
    expect(await commands.runBadly(1, SPACE, 'snapshots', 'hone')).toContain('there is home');
    expect(await commands.runBadly(1, SPACE, 'ls', 'home/none')).toContain(
      ' home/none does not exist in this tree',
    );
    expect(await commands.runBadly(1, SPACE, 'ls', 'home@2001-01-01')).toContain(`home@${ids[0]}`);
    expect(await commands.runBadly(1, SPACE, 'forget', '0123456789abcdef')).toContain(`home@${ids[2]}`);
    for (const args of [
      ['push', source, '--name', 'deadbeef'],
      ['push', source, '--name', '.hidden'],
      ['push', source, '--name', 'home', '--root-ref'],
      ['forget', 'home'],
      ['forget', 'home', '--keep-last', '0'],
      ['forget', 'home', '--all', '--keep-last', '1'],
      ['forget', '0123456789abcdef', '--all'],
      ['snapshots', 'pin', '1234'],
    ]) {
      await commands.runBadly(2, SPACE, ...args);
    }
    expect(await commands.runBadly(1, SPACE, 'forget', 'home', '--keep-within', '1ms')).toContain(
      'keeps no snapshot',
    );
  });

  test('are forgotten with reasons, as a dry run said before, and can be taken back', async () => {
    const [first = '', second = '', third = ''] = ids;
    await commands.runWell(SPACE, 'snapshots', 'pin', first.slice(0, 8));
    expect(await commands.runBadly(1, SPACE, 'forget', first)).toContain('unpin it first');
    const policy = ['forget', 'home', '--keep-last', '1', '--json'];
    const planned = JSON.parse(await commands.runWell(SPACE, ...policy, '--dry-run'));
    const done = JSON.parse(await commands.runWell(SPACE, ...policy));
    expect(done).toEqual(planned);
    expect(done.forgotten).toMatchObject([{ id: second, reasons: ['no rule keeps it'] }]);
    expect(done.kept).toMatchObject([
      { id: first, reasons: ['pinned'] },
      { id: third, reasons: ['last 1'] },
    ]);
    await commands.runWell(SPACE, 'unforget', second);
    await commands.runWell(SPACE, 'snapshots', 'unpin', first);
    const all = await commands.run(SPACE, 'forget', 'home', '--all');
    expect(all.stderr).toContain('a collection will free up to');
    expect(JSON.parse(await commands.runWell(SPACE, 'snapshots', '--json'))).toEqual([]);
    expect(await commands.runWell(SPACE, 'refs', 'list')).toBe('');
    await commands.runWell(SPACE, 'unforget', third);
    expect(await commands.runWell(SPACE, 'cat', 'home/sub/file')).toBe('b');
  });
});

describe('push --root-ref', () => {
  const space = 'root-refs';
  const push = async (permissions: readonly string[]) => {
    const token = commands.running.issuer.token(space, { permissions });
    const environment = { ...commands.environment(space), HOLDFAST_TOKEN: token };
    return runHoldfast(['push', source, '--root-ref'], { cwd: source, environment });
  };
  const balance = async (): Promise<number> => {
    const { items } = JSON.parse(await commands.runWell(space, 'refs', 'list', '--json'));
    return items[0].refCount;
  };

  test('adds no second one to an unchanged tree, unless the token may not look; both are said', async () => {
    const writing = ['cas:nodes:lease', 'cas:root-refs:update'];
    for (const says of [
      'has a root ref since',
      'has a root ref already (its balance is 1): none was added',
    ]) {
      expect(await push([...writing, 'cas:root-refs:read'])).toMatchObject({
        exitCode: 0,
        stderr: expect.stringContaining(says),
      });
      expect(await balance()).toBe(1);
    }
    expect(await push(writing)).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining('does not permit cas:root-refs:read'),
    });
    expect(await balance()).toBe(2);
  });
});

describe('a list that another program made', () => {
  const space = 'hand-made';
  const lost = ['1'.repeat(64), '2'.repeat(64)];
  const plant = async (content: string): Promise<string> => {
    const { issuer, server } = commands.running;
    const client = createClient({
      baseUrl: server.url,
      appId: APP,
      spaceId: space,
      token: issuer.token(space),
    });
    const { hash } = await client.putNode({ contentType: CATALOG_CONTENT_TYPE, content });
    await client.updateRootRefs({ requestId: hash, changes: { [hash]: 1 } });
    return hash;
  };

  test('with damaged trees names all of them, and is mended by forgetting them in one command', async () => {
    const entries = lost.map((root, index) => ({
      ...{ id: String(index).repeat(16), name: 'lost', root, time: 1, host: 'h', path: '/p', bytes: 1 },
    }));
    await plant(JSON.stringify({ version: 1, random: 'r', previous: [], snapshots: entries }));
    const [first = '', second = ''] = entries.map(({ id }) => id);
    const pinned = await commands.runBadly(1, space, 'snapshots', 'pin', first);
    for (const named of [...lost, first, second, 'in one command']) expect(pinned).toContain(named);
    const { stderr } = await commands.run(space, 'forget', first, second);
    expect(stderr).toContain('forgot 2 snapshots; a collection will free nothing');
    expect(await commands.runWell(space, 'refs', 'list')).toBe('');
  });

  test('that cannot be read is not shown as an empty one', async () => {
    const hash = await plant('no catalog');
    const { stderr } = await commands.run(space, 'snapshots');
    expect(stderr).toContain(hash);
    expect(stderr).not.toContain('nothing is kept');
  });
});
