/** `holdfast push` as a command: its flags, what goes to stdout and what to stderr, and what it says when it cannot. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { CHECKOUT_HOLDFAST, HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const HASH = /^[0-9a-f]{64}$/;
const place = new Workplace();
beforeAll(async () => {
  Object.assign(place.environment, await place.serve());
  mkdirSync(place.path('tree/sub'), { recursive: true });
  writeFileSync(place.path('tree/a.txt'), 'a');
  writeFileSync(place.path('tree/sub/b.log'), 'b');
});
afterAll(() => place.remove());

describe('holdfast push', () => {
  test('prints the hash alone on stdout, and nothing else at all when quiet', async () => {
    const loud = await place.run('push', 'tree');
    expect(loud.exitCode).toBe(0);
    expect(loud.stdout.trimEnd()).toMatch(HASH);
    expect(loud.stderr).toContain('safe until');
    expect(await place.print('push', 'tree', '--quiet')).toBe(loud.stdout);
    expect(await place.print('push', place.path('tree/'), '--quiet')).toBe(loud.stdout);
  });

  test('with --json prints the result, and events as lines on stderr', async () => {
    const { stdout, stderr } = await place.run('push', 'tree', '--json');
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({
      root: expect.stringMatching(HASH),
      kind: 'directory',
      entryCount: 4,
      bytes: 2,
    });
    const events = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events[0]).toMatchObject({ type: 'start', job: 'push' });
    expect(events.at(-1)).toMatchObject({ type: 'done', result: result.root });
  });

  test('says durations as they are written', async () => {
    expect(await place.print('push', '--help')).toMatch(/within\s+1m\s+to\s+24h\s+\(default:\s+24h\)/);
  });

  test('leaves out what patterns say', async () => {
    const whole = await place.print('push', 'tree', '--quiet');
    writeFileSync(place.path('patterns'), '*.log\n');
    const without = await place.print('push', 'tree', '--quiet', '--ignore-file', 'patterns');
    expect(without).not.toBe(whole);
    writeFileSync(place.path('tree/.holdfastignore'), '*.log\n!.holdfastignore\n');
    const ignored = await place.print('push', 'tree', '--quiet');
    const all = await place.print('push', 'tree', '--quiet', '--no-ignore');
    rmSync(place.path('tree/.holdfastignore'));
    expect(new Set([whole, without, ignored, all]).size).toBe(4);
    for (const flags of [['--ignore-file', 'patterns'], ['--gitignore']]) {
      expect(await place.fail(2, 'push', 'tree', '--no-ignore', ...flags)).toContain(
        '--no-ignore stores everything',
      );
    }
    mkdirSync(place.path('git'));
    writeFileSync(place.path('git/.gitignore'), 'x\n');
    const versioned = await place.print('push', 'git', '--quiet');
    writeFileSync(place.path('git/x'), 'x');
    expect(await place.print('push', 'git', '--quiet', '--gitignore')).toBe(versioned);
    expect(await place.print('push', 'git', '--quiet')).not.toBe(versioned);
  });

  test('plans without sending', async () => {
    mkdirSync(place.path('plan'));
    writeFileSync(place.path('plan/f'), 'planned');
    const planned = await place.run('push', 'plan', '--dry-run');
    expect(planned.stderr).toContain('would upload 2 nodes with 7 B');
    const { stdout } = await place.run('push', 'plan', '--dry-run', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ missingNodes: 2, missingBytes: 7 });
    expect(await place.print('push', 'plan', '--quiet')).toBe(planned.stdout);
    expect((await place.run('push', 'plan', '--dry-run')).stderr).toContain('everything is there already');
  });

  test('stores a link as a link, and says so', async () => {
    symlinkSync('tree', place.path('link'));
    const { exitCode, stderr } = await place.run('push', 'link');
    expect(exitCode).toBe(0);
    expect(stderr).toContain('link is a symbolic link and is stored as one');
    const events = (await place.run('push', 'link', '--json')).stderr.trimEnd().split('\n');
    expect(events.map((line) => JSON.parse(line).type)).toContain('warning');
    const quiet = await place.run('push', 'link', '--json', '--quiet');
    expect(JSON.parse(quiet.stderr)).toMatchObject({
      type: 'warning',
      message: expect.stringContaining('symbolic link'),
    });
  });

  test('follows paths as the kernel does, and so do other commands', async () => {
    mkdirSync(place.path('real/sub'), { recursive: true });
    mkdirSync(place.path('other'));
    writeFileSync(place.path('real/sub/f'), 'deep');
    symlinkSync('../real/sub', place.path('other/link'));
    const below = await place.print('push', 'real/sub', '--quiet');
    expect(await place.print('push', 'other/link/', '--quiet')).toBe(below);
    expect(await place.print('push', 'other/link/.', '--quiet')).toBe(below);
    const above = await place.print('push', 'real', '--quiet');
    expect(await place.print('push', 'other/link/..', '--quiet')).toBe(above);
    for (const path of ['nothing/../real', 'real/sub/f/..', 'real/sub/f/']) {
      expect(await place.fail(1, 'push', path)).toContain('check the path');
    }
    await place.print('pull', below.trim(), 'other/link/../pulled', '--quiet');
    await place.print('key', 'new', '--out', 'other/link/../key.jwk', '--jwks', 'other/link/../jwks.json');
    await place.print('node', 'put', 'other/link/f');
    await place.print('bundle', 'create', below.trim(), '--out', 'other/link/../b.car', '--quiet');
    expect(readdirSync(place.path('real')).sort()).toEqual([
      'b.car',
      'jwks.json',
      'key.jwk',
      'pulled',
      'sub',
    ]);
    expect(readdirSync(place.path('other'))).toEqual(['link']);
    expect(await place.fail(1, 'pull', below.trim(), 'real/b.car/')).toContain('is not a folder');
    expect(await place.fail(1, 'app', 'list', '--data', 'nothing/..')).toContain('nothing does not exist');
    expect(await place.fail(1, 'serve', '--data', 'postgres://u:hush@h/d')).toBe(
      'holdfast: postgres://(not shown)@h/d is a URL, where a folder is expected: give its path\n',
    );
  });

  test('remembers where it is told to', async () => {
    await place.print('push', 'tree', '--quiet', '--cache', 'elsewhere');
    for (const name of ['.holdfastignore', '.gitignore'])
      expect(readFileSync(place.path('elsewhere', name), 'utf8')).toBe('*\n');
    expect(existsSync(place.path('elsewhere/trees'))).toBe(true);
    const { stdout } = await place.run('push', 'tree', '--json', '--no-cache');
    expect(JSON.parse(stdout).readCount).toBe(2);
  });

  test('goes on without remembering where nothing can be kept, and says what that means for a root ref', async () => {
    writeFileSync(place.path('no-folder'), '');
    place.environment.XDG_CACHE_HOME = place.path('no-folder');
    for (const more of [[], ['--name', 'unremembered']]) {
      const { exitCode, stderr } = await place.run('push', 'tree', ...more);
      expect(exitCode).toBe(0);
      expect(stderr).toContain('nothing will be remembered of this push');
      expect(stderr.includes('may be there twice')).toBe(more.length > 0);
    }
    delete place.environment.XDG_CACHE_HOME;
    await place.run('forget', 'unremembered', '--all');
  });

  test('goes on when the disk of what is remembered fills, except for a root ref', async () => {
    mkdirSync(place.path('many'));
    for (let index = 0; index < 1_500; index += 1) writeFileSync(place.path('many', `file ${index}`), '');
    // Files of 60 KiB at most (120 blocks): a disk that is full, as SQLite sees it.
    const full = "trap '' XFSZ; ulimit -f 120; holdfast push many --cache full";
    const { exitCode, stdout, stderr } = await place.runScript(full);
    expect([exitCode, stdout]).toEqual([0, await place.print('push', 'many', '--quiet')]);
    expect(stderr).toMatch(
      /^warning: nothing more is remembered of this push: the cache folder \S+full cannot be written/,
    );
    const refused = await place.runScript(`${full} --root-ref`);
    expect([refused.exitCode, refused.stdout]).toEqual([1, '']);
    expect(refused.stderr).toContain(
      'none was committed; free space on its disk, or choose another with --cache DIR',
    );
    expect((await place.run('refs', 'list')).stdout).toBe('');
  });

  test('throws away what it remembers when that is damaged, and gives the same root', async () => {
    const root = await place.print('push', 'many', '--quiet', '--cache', 'damaged');
    const name = readdirSync(place.path('damaged/trees')).find((found) =>
      found.endsWith('.sqlite'),
    ) as string;
    const file = place.path('damaged/trees', name);
    const bytes = readFileSync(file);
    // In every page but those of the schema and the commits, which stand at the beginning.
    for (let at = 12 * 4096 + 2000; at < bytes.length; at += 4096) bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(file, bytes);
    const { exitCode, stdout, stderr } = await place.run('push', 'many', '--cache', 'damaged');
    expect([exitCode, stdout]).toEqual([0, root]);
    expect(stderr).toContain('is thrown away: the push begins anew');
    expect((await place.run('push', 'many', '--cache', 'damaged')).stderr).not.toContain('thrown away');
  });

  test('works in no folder that cannot be named: nothing is written, stored or remembered elsewhere', async () => {
    const root = (await place.print('push', 'tree', '--quiet')).trimEnd();
    mkdirSync(place.path('odd'));
    const odd = 'cd odd && mkdir -p "$(printf \'n\\377\')" && cd "$(printf \'n\\377\')" &&';
    const removed = 'mkdir odd/gone && cd odd/gone && rmdir ../gone &&';
    // In a folder that is gone the executable does not get so far: its runtime ends it, with a line of its own.
    for (const [where, program] of [
      [odd, HOLDFAST],
      [removed, CHECKOUT_HOLDFAST],
    ] as const) {
      for (const command of [`pull ${root} out`, 'push .', `push ${place.path('tree')} --cache c`]) {
        const { exitCode, stdout, stderr } = await place.runScript(`${where} holdfast ${command}`, program);
        expect([exitCode, stdout]).toEqual([1, '']);
        expect(stderr).toMatch(
          /^(?:sh: [^\n]+\n)?holdfast: \S+ is relative, and the working directory was removed or its name is not UTF-8; [^\n]+\n$/,
        );
      }
      const { exitCode } = await place.runScript(`${where} holdfast push ${place.path('tree')}`, program);
      expect(exitCode).toBe(0);
    }
    expect(readdirSync(place.path('odd'))).toHaveLength(1);
    expect((await place.runScript('ls odd/n* | wc -l')).stdout.trim()).toBe('0');
  });

  test('says that a name that is not UTF-8 cannot be given', async () => {
    for (const command of ['push', `pull ${'0'.repeat(64)}`]) {
      const { exitCode, stderr } = await place.runScript(`holdfast ${command} "$(printf 'm\\377')/x"`);
      expect([exitCode, stderr]).toEqual([
        1,
        expect.stringContaining('a name that is not UTF-8 cannot be given'),
      ]);
    }
    mkdirSync(place.path('\ufffd'));
    expect((await place.run('push', '\ufffd')).exitCode).toBe(0);
  });

  test('says in one line what is wrong, and what to do', async () => {
    const space = place.environment.HOLDFAST_SPACE as string;
    expect(await place.fail(1, 'push', 'nowhere')).toContain('it does not exist; check the path');
    Bun.spawnSync(['mkfifo', place.path('pipe')]);
    mkdirSync(place.path('special'));
    Bun.spawnSync(['mkfifo', place.path('special/pipe')]);
    expect(await place.fail(1, 'push', 'special', '--strict')).toContain(
      'pipe (named pipe); nothing was sent',
    );
    expect(await place.fail(1, 'push', 'pipe', '--skip-special')).toContain(
      'pipe is a socket, pipe or device; only folders',
    );
    writeFileSync(place.path('file'), '');
    expect(await place.fail(1, 'push', 'file/')).toContain('file is not a folder');
    expect(await place.fail(1, 'push', 'tree', '--cache', 'file')).toContain('choose another with --cache');
    writeFileSync(place.path('token'), 'not.a.token', { mode: 0o600 });
    expect(await place.fail(1, 'push', 'tree', '--token-file', 'token')).toContain('invalid_token');
    expect(await place.fail(1, 'push', 'tree', '--space', 'elsewhere')).toContain('resource_scope_mismatch');
    place.environment.HOLDFAST_SPACE = '..';
    expect(await place.fail(2, 'push', 'tree')).toContain('check HOLDFAST_SPACE or --space');
    place.environment.HOLDFAST_SPACE = space;
    for (const args of [[], ['tree', '--jobs', '0'], ['tree', '--lease', 'long'], ['tree', 'tree']]) {
      await place.fail(2, 'push', ...args);
    }
  });

  test('passes over a data folder and a backup with a line each, and refuses one, or a part, that is given', async () => {
    mkdirSync(place.path('project/served'), { recursive: true });
    writeFileSync(place.path('project/file'), 'mine');
    for (const name of ['lock.db', 'registry.db', '.holdfastignore']) {
      writeFileSync(place.path('project/served', name), '');
    }
    mkdirSync(place.path('project/apps'));
    for (const name of ['registry.db', '.holdfastignore', '.gitignore'])
      writeFileSync(place.path('project/apps', name), '');
    mkdirSync(place.path('project/saved'));
    writeFileSync(place.path('project/saved/BACKUP'), '{"format":1,"sequence":1}');
    const { exitCode, stdout, stderr } = await place.run('push', 'project', '--quiet', '--no-ignore');
    expect([exitCode, stderr]).toEqual([
      0,
      'warning: apps is passed over: it is the data folder of a Holdfast server\nwarning: saved is passed over: it is a backup of a Holdfast server\nwarning: served is passed over: it is the data folder of a Holdfast server\n',
    ]);
    expect((await place.run('ls', stdout.trim())).stdout).toBe('file\n');
    mkdirSync(place.path('project/saved/lists/one'), { recursive: true });
    for (const name of ['served', 'saved', 'apps', 'served/.', 'served/registry.db', 'saved/lists/one']) {
      const told = await place.fail(1, 'push', `project/${name}`);
      expect(told).toContain(name.includes('/') && name !== 'served/.' ? 'is a part of' : 'is never pushed');
    }
  });

  test('pushes and pulls many folders where few descriptors may be open', async () => {
    for (let at = 0; at < 1_000; at += 1) {
      mkdirSync(place.path('folders', `d${at}`), { recursive: true });
      writeFileSync(place.path('folders', `d${at}`, 'f'), String(at));
    }
    const pushing = await place.runScript('ulimit -n 256; holdfast push folders --quiet');
    expect([pushing.exitCode, pushing.stderr]).toEqual([0, '']);
    const root = pushing.stdout.trim();
    const pulling = await place.runScript(`ulimit -n 256; holdfast pull ${root} pulled-folders --quiet`);
    expect([pulling.exitCode, pulling.stderr]).toEqual([0, '']);
    expect(await place.print('push', 'pulled-folders', '--quiet')).toBe(`${root}\n`);
  });

  test('needs the permission and the refDomain for a root ref', async () => {
    const { exitCode, stdout } = await place.run('push', 'tree', '--root-ref');
    expect([exitCode, stdout.trimEnd()]).toEqual([0, expect.stringMatching(HASH)]);
    const { stdout: listed } = await place.run('refs', 'list');
    expect(listed).toBe(`${stdout.trimEnd()} 1\n`);
    // Said before anything is sent: there is no server at that address.
    const nowhere = ['push', 'tree', '--root-ref', '--url', 'http://127.0.0.1:1', '--token-file', 'claims'];
    const permissions = ['cas:root-refs:update'];
    for (const [claims, what] of [
      [{ permissions }, 'names no refDomain'],
      [{ permissions, refDomain: 'NO' }, 'names no refDomain'],
      [{ permissions: ['cas:nodes:lease'], refDomain: 'demo' }, 'does not permit cas:root-refs:update'],
    ] as const) {
      const token = `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;
      writeFileSync(place.path('claims'), token, { mode: 0o600 });
      expect(await place.fail(1, ...nowhere)).toContain(what);
    }
  });

  test('stores all but what it names, and exits with 3', async () => {
    mkdirSync(place.path('partly'));
    writeFileSync(place.path('partly/good'), 'good');
    const whole = await place.print('push', 'partly', '--quiet');
    Bun.spawnSync(['mkfifo', place.path('partly/bad')]);
    const { exitCode, stdout, stderr } = await place.run('push', 'partly', '--quiet', '--name', 'partly');
    expect([exitCode, stdout]).toEqual([3, whole]);
    expect(stderr).toMatch(/^warning: bad is left out: named pipe\nholdfast: one entry left out, [^\n]+\n$/);
    expect((await place.run('snapshots', 'partly')).stdout).toContain('partly  ');
    for (const flags of [[], ['--dry-run']]) {
      const told = await place.run('push', 'partly', '--json', ...flags);
      expect([told.exitCode, JSON.parse(told.stdout).leftOut]).toEqual([
        3,
        [{ path: 'bad', why: 'named pipe' }],
      ]);
    }
    const skipped = await place.run('push', 'partly', '--skip-special', '--quiet');
    expect([skipped.exitCode, skipped.stdout, skipped.stderr]).toEqual([0, whole, '']);
  });
});
