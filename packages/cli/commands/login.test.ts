/** Profiles as a user has them: kept by login, used by every command, shown without their tokens, forgotten by logout. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { type Outcome, Workplace } from '../test/run-holdfast-fixture.ts';

const place = new Workplace();
const connection: Record<string, string> = {};
beforeAll(async () => {
  Object.assign(connection, await place.serve());
});
afterAll(() => place.remove());
beforeEach(() => {
  rmSync(place.path('.config'), { recursive: true, force: true });
  for (const name of Object.keys(place.environment)) delete place.environment[name];
});

const FILE = '.config/holdfast/profiles.json';
const token = (): string => connection.HOLDFAST_TOKEN as string;

function login(name: string, ...more: readonly string[]): Promise<Outcome> {
  const { HOLDFAST_URL, HOLDFAST_APP, HOLDFAST_SPACE } = connection;
  const space = more.includes('--space') ? '' : `--space ${HOLDFAST_SPACE}`;
  const flags = `--url ${HOLDFAST_URL} --app ${HOLDFAST_APP} ${space}`;
  return place.runScript(`printf %s '${token()}' | holdfast login ${name} ${flags} ${more.join(' ')}`);
}

test('a connection is kept for its owner alone, and used without any variable', async () => {
  const { exitCode, stdout, stderr } = await login('work');
  expect([exitCode, stdout]).toEqual([
    0,
    `profile work (the default): App demo, Space home at ${connection.HOLDFAST_URL}\n`,
  ]);
  expect(stderr).toMatch(/^the server accepts it; the token is good until 2\d{3}-.*Z\n$/);
  expect(statSync(place.path(FILE)).mode & 0o777).toBe(0o600);
  expect(statSync(place.path('.config/holdfast')).mode & 0o777).toBe(0o700);
  for (const name of ['.holdfastignore', '.gitignore'])
    expect(readFileSync(place.path('.config/holdfast', name), 'utf8')).toBe('*\n');
  expect(await place.print('usage')).toContain('nodeCount');
  expect(await place.print('usage', '--profile', 'work')).toContain('nodeCount');
  const shown = (await place.print('profiles')) + (await place.print('profiles', '--json'));
  expect(shown).toContain('work (default)');
  expect(shown).toContain('is good until');
  expect(shown).not.toContain(token());
  expect(await place.print('logout', 'work')).toContain('forgotten');
  expect(readFileSync(place.path(FILE), 'utf8')).not.toContain(token());
  expect(await place.fail(2, 'usage')).toContain('or keep one with: holdfast login NAME');
});

test('on a terminal it asks, and what is typed of the token is not shown', async () => {
  let shown = '';
  const answers = ['HOLDFAST_URL', 'HOLDFAST_APP', 'HOLDFAST_SPACE', 'HOLDFAST_TOKEN'].map(
    (name) => connection[name],
  );
  const questions = ['server: ', 'App: ', 'Space: ', 'shown): '];
  const child = Bun.spawn([HOLDFAST, 'login', 'typed'], {
    cwd: place.folder,
    env: { PATH: process.env.PATH ?? '', HOME: place.folder, TERM: 'xterm' },
    terminal: {
      data(terminal, data) {
        shown += new TextDecoder().decode(data);
        if (!shown.includes(questions[0] ?? '\0')) return;
        shown = shown.replace(questions.shift() as string, '');
        terminal.write(`${answers.shift()}\r`);
      },
    },
    timeout: 240_000,
  });
  expect(await child.exited).toBe(0);
  expect(questions).toEqual([]);
  expect(shown).not.toContain(token());
  expect(await place.print('usage', '--profile', 'typed')).toContain('nodeCount');
});

test('a flag wins over the profile it stands beside, a variable over the default, and no token goes elsewhere', async () => {
  await login('work');
  await login('other', '--space', 'elsewhere', '--no-check');
  expect(await place.fail(1, 'usage', '--profile', 'other')).toContain('the token is for the Space "home"');
  expect(await place.print('usage', '--profile', 'other', '--space', 'home')).toContain('nodeCount');
  place.environment.HOLDFAST_SPACE = 'elsewhere';
  expect(await place.fail(1, 'usage')).toContain('HOLDFAST_SPACE or --space says "elsewhere"');
  expect(await place.print('usage', '--profile', 'work')).toContain('nodeCount');
  place.environment.HOLDFAST_PROFILE = 'none';
  expect(await place.fail(1, 'usage')).toContain('kept are work, other; make it with: holdfast login none');
  place.environment.HOLDFAST_PROFILE = 'work';
  place.environment.HOLDFAST_SPACE = '';
  expect(await place.print('usage')).toContain('nodeCount');
  expect(await place.fail(2, 'usage', '--url', 'http://127.0.0.1:1')).toContain(
    'set HOLDFAST_TOKEN or --token-file',
  );
});

test('a token file is kept by its path', async () => {
  writeFileSync(place.path('token'), 'x.y.z', { mode: 0o600 });
  const { HOLDFAST_URL: url = '' } = connection;
  const flags = ['--url', url, '--app', 'demo', '--space', 'home', '--token-file', 'token'];
  expect(await place.fail(1, 'login', 'work', ...flags)).toContain('nothing was kept');
  expect(existsSync(place.path(FILE))).toBe(false);
  writeFileSync(place.path('token'), token());
  expect((await place.run('login', 'work', ...flags)).exitCode).toBe(0);
  expect(readFileSync(place.path(FILE), 'utf8')).not.toContain(token());
  expect(await place.print('usage')).toContain('nodeCount');
  rmSync(place.path('token'));
  expect(await place.print('profiles')).toContain(`${place.path('token')}: cannot be read`);
  expect(await place.fail(1, 'usage')).toContain('it does not exist');
});

test('a file that others can read, or that is damaged, is not used', async () => {
  await login('work');
  chmodSync(place.path(FILE), 0o640);
  expect(await place.fail(1, 'usage')).toContain(`(mode 640); nothing in it was used`);
  expect(await place.fail(1, 'profiles')).toContain(`chmod 600 ${place.path(FILE)}`);
  Object.assign(place.environment, connection);
  expect(await place.print('usage')).toContain('nodeCount');
  for (const name of Object.keys(place.environment)) delete place.environment[name];
  chmodSync(place.path(FILE), 0o600);
  rmSync(place.path(FILE), { force: true });
  Bun.spawnSync(['mkfifo', '-m', '600', place.path(FILE)]);
  expect(await place.fail(1, 'profiles')).toContain('is no file: move it away');
  rmSync(place.path(FILE));
  writeFileSync(place.path(FILE), `{"profiles": "${token()}`, { mode: 0o600 });
  const line = await place.fail(1, 'usage');
  expect(line).toContain('is no file of profiles as holdfast login writes it');
  expect(line).not.toContain(token());
});

test('without HOME only what needs a profile says so', async () => {
  Object.assign(place.environment, connection, { HOME: '' });
  expect(await place.print('usage')).toContain('nodeCount');
  expect(await place.fail(1, 'login', 'work')).toContain('set HOME, or XDG_CONFIG_HOME');
});

test.each(['', '..', 'a/b', '-x', 'x'.repeat(65)])('%p is no name', async (name) => {
  expect(await place.fail(2, 'logout', '--', name)).toContain('profile');
});
