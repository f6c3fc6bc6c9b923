/** Tests install the programs of the distribution that are missing, also after an installation that was killed. */
import { afterAll, expect, test } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { makeTempFolder } from './support/temp-folder.ts';

const ROOT = join(import.meta.dir, '..');
const folder = makeTempFolder('debian-programs', { fast: true });
afterAll(() => folder.remove());
const at = (name: string): string => join(folder.path, name);

/** Stands in for a program of the system, and notes how it was called. */
function plant(name: string, script: string): void {
  writeFileSync(at(name), `#!/bin/sh\necho "${name} $*" >> ${at('calls')}\n${script}\n`, { mode: 0o755 });
}

test('an installation that was killed is finished first', () => {
  // As apt-get does: it installs nothing until dpkg has configured what is half installed.
  plant('dpkg', `touch ${at('configured')}`);
  plant(
    'apt-get',
    `case "$*" in *wanted*) test -e ${at('configured')} || exit 100; cp ${at('dpkg')} ${at('wanted')};; esac`,
  );
  const module = pathToFileURL(join(ROOT, 'tools', 'debian-programs.mjs')).href;
  writeFileSync(
    at('install.mjs'),
    `import { ensurePrograms } from ${JSON.stringify(module)};
ensurePrograms({ user: 'tests', programs: ['wanted'], packages: ['wanted'], megabytes: 1 });`,
  );
  const { exitCode, stderr } = Bun.spawnSync(['node', at('install.mjs')], {
    env: { ...process.env, PATH: `${folder.path}:${process.env.PATH}` },
  });
  if (process.getuid?.() !== 0) {
    expect([exitCode, `${stderr}`]).toEqual([1, expect.stringContaining('only root may install it')]);
    return;
  }
  expect(exitCode).toBe(0);
  expect(existsSync(at('wanted'))).toBe(true);
  const calls = readFileSync(at('calls'), 'utf8').trim().split('\n');
  expect(calls.map((call) => call.replace(/ -q -o \S+/, ''))).toEqual([
    'apt-get update',
    'apt-get install -y --no-install-recommends wanted',
    'dpkg --configure -a',
    'apt-get install -y --fix-broken',
    'apt-get install -y --no-install-recommends wanted',
  ]);
});

test('a name that stands for no programs is told which do', () => {
  const { exitCode, stderr } = Bun.spawnSync(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'other']);
  expect([exitCode, `${stderr}`]).toEqual([1, expect.stringMatching(/^holdfast: name one of: ceph, .*\n$/)]);
});
