/** The data folder of another user is opened by no command, unless it is allowed. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const NOBODY = 65534;

let place: Workplace;
/** a folder of another user, whoever runs this */
let foreign: string;

beforeAll(() => {
  place = new Workplace();
  foreign = '/etc';
  if (process.getuid?.() !== 0) return;
  foreign = place.path('foreign');
  mkdirSync(foreign);
  writeFileSync(place.path('foreign', 'file'), '');
  chownSync(foreign, NOBODY, NOBODY);
});
afterAll(() => place.remove());

const REFUSAL =
  /the data folder \S+ belongs to user .*\d+.*, and this command runs as user .*\d+.*--allow-foreign-owner\n$/;

test('every command that opens the folder refuses it, with one line, and makes nothing in it', async () => {
  const before = readdirSync(foreign);
  const data = ['--data', foreign];
  const commands = [
    ['serve', '--listen', '127.0.0.1:0', ...data],
    ['app', 'list', ...data],
    ['app', 'suspend', 'demo', ...data],
    ['secret', 'rotate', ...data],
    ['space', 'list', ...data],
    ['backup', 'b', ...data],
    ['migrate', '--from', foreign, '--to', 'new'],
    ['config', 'check', ...data],
  ];
  for (const command of commands) {
    const { exitCode, stdout, stderr } = await place.run(...command);
    expect({ command, exitCode, said: stderr + stdout }).toEqual({
      ...{ command, exitCode: 1 },
      said:
        command[0] === 'config'
          ? expect.stringContaining('--allow-foreign-owner')
          : expect.stringMatching(REFUSAL),
    });
  }
  expect(readdirSync(foreign)).toEqual(before);
});

test('the flag or the variable allows it, and config check shows so', async () => {
  const list = ['app', 'list', '--json', '--data', foreign];
  expect(JSON.parse(await place.print(...list, '--allow-foreign-owner'))).toEqual([]);
  place.environment.HOLDFAST_ALLOW_FOREIGN_OWNER = '1';
  expect(JSON.parse(await place.print(...list))).toEqual([]);
  const { stdout } = await place.run('config', 'check', '--json', '--data', foreign);
  const { problems, settings } = JSON.parse(stdout) as { problems: object[]; settings: object };
  expect(settings).toMatchObject({ allowForeignOwner: true });
  expect(JSON.stringify(problems)).not.toContain('belongs to');
  place.environment.HOLDFAST_ALLOW_FOREIGN_OWNER = 'perhaps';
  expect(await place.fail(2, ...list)).toContain('must be 1 or 0');
});
