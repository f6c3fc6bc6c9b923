#!/usr/bin/env node
// The tests run against a real S3, Ceph's object gateway, which comes from the distribution. Installs it by apt where it is
// missing, and says so. Nothing of it is started here, and nothing but the tests needs it.
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const PROGRAMS = ['ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'ceph', 'monmaptool'];
const PACKAGES = ['radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common'];
const STEP_TIMEOUT_MS = 10 * 60 * 1000;
/** Another installation that runs right now is waited for. */
const LOCK_SECONDS = 300;

function findMissing() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const isThere = (program) =>
    folders.some((folder) => {
      try {
        accessSync(join(folder, program), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
  return PROGRAMS.filter((program) => !isThere(program));
}

function apt(...args) {
  console.error(`holdfast: apt-get ${args.join(' ')}`);
  const result = spawnSync('apt-get', ['-q', '-o', `DPkg::Lock::Timeout=${LOCK_SECONDS}`, ...args], {
    // stdout belongs to whoever called; progress and complaints go to stderr.
    stdio: ['ignore', 2, 2],
    timeout: STEP_TIMEOUT_MS,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return result.status === 0;
}

function ensureCeph() {
  const missing = findMissing();
  if (missing.length === 0) return;
  const byHand = `apt-get install --no-install-recommends ${PACKAGES.join(' ')}`;
  const need = `the tests of the scale-out engine need ${missing.join(', ')} (Ceph's object gateway)`;
  if (process.getuid?.() !== 0) throw new Error(`${need}: only root may install it; run as root: ${byHand}`);
  console.error(`holdfast: ${need}: installing from the distribution, once (about 60 MB)`);
  if (!apt('update') || !apt('install', '-y', '--no-install-recommends', ...PACKAGES)) {
    throw new Error(`${need}, and apt-get failed, see above; mend the cause or run: ${byHand}`);
  }
  const left = findMissing();
  if (left.length > 0)
    throw new Error(`${PACKAGES.join(', ')} are installed, and ${left.join(', ')} are not there`);
}

try {
  ensureCeph();
} catch (error) {
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
}
