#!/usr/bin/env node
// Programs that tests need and the distribution has: installed by apt where they are missing, which is then said. Nothing is
// started here, and nothing but the tests needs any of it. As a command: node tools/debian-programs.mjs ceph
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Who needs which programs, of which packages, and what they weigh to download. */
export const PROGRAMS = {
  ceph: {
    user: "the tests of the scale-out engine (they run on Ceph's object gateway)",
    programs: ['ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'ceph', 'monmaptool'],
    packages: ['radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common'],
    megabytes: 60,
  },
  chromium: {
    user: 'the tests of the SDK in a browser',
    programs: ['chromium'],
    packages: ['chromium'],
    megabytes: 120,
  },
  systemd: {
    user: 'the tests of the systemd unit',
    programs: ['systemd-analyze'],
    packages: ['systemd'],
    megabytes: 4,
  },
  promtool: {
    user: 'the tests of metrics and alert rules',
    programs: ['promtool'],
    packages: ['prometheus'],
    megabytes: 20,
  },
  strace: { user: 'the tests of power loss', programs: ['strace'], packages: ['strace'], megabytes: 2 },
  fuse: { user: 'the tests of mounts', programs: ['fusermount3'], packages: ['fuse3'], megabytes: 1 },
  'cache-clients': {
    user: 'the tests of the cache',
    programs: ['ccache', 'git-lfs'],
    packages: ['ccache', 'git-lfs'],
    megabytes: 12,
  },
  'webdav-clients': {
    user: 'the tests of the WebDAV gateway',
    programs: ['litmus', 'rclone', 'restic', 'cadaver', 'mount.davfs'],
    packages: ['litmus', 'rclone', 'restic', 'cadaver', 'davfs2'],
    megabytes: 30,
  },
  spin: {
    user: 'the tests of the model of rows and bytes',
    programs: ['spin', 'gcc'],
    packages: ['spin', 'gcc', 'libc6-dev'],
    megabytes: 45,
  },
};

/** Another installation that runs right now is waited for. */
const LOCK_SECONDS = 300;

/** Sets the exit code 1, and says what to do, when a program is missing and cannot be installed. `wanted`: as in PROGRAMS. */
export function ensurePrograms(wanted) {
  try {
    if (wanted === undefined) throw new Error(`name one of: ${Object.keys(PROGRAMS).join(', ')}`);
    installMissing(wanted);
  } catch (error) {
    console.error(`holdfast: ${error.message}`);
    process.exitCode = 1;
  }
}

function installMissing({ user, programs, packages, megabytes }) {
  const missing = findMissing(programs);
  if (missing.length === 0) return;
  const byHand = `apt-get install --no-install-recommends ${packages.join(' ')}`;
  const need = `${user} need ${missing.join(', ')}`;
  if (process.getuid?.() !== 0) throw new Error(`${need}: only root may install it; run as root: ${byHand}`);
  console.error(`holdfast: ${need}: installing from the distribution, once (about ${megabytes} MB)`);
  const install = () => apt('install', '-y', '--no-install-recommends', ...packages);
  if (!apt('update') || !(install() || (finishInterrupted() && install()))) {
    throw new Error(`${need}, and apt-get failed, see above; mend the cause or run: ${byHand}`);
  }
  const left = findMissing(programs);
  if (left.length > 0)
    throw new Error(`${packages.join(', ')} are installed, and ${left.join(', ')} are not there`);
}

function findMissing(programs) {
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
  return programs.filter((program) => !isThere(program));
}

/** An installation that was killed leaves packages half installed, and apt-get installs nothing until they are whole. */
function finishInterrupted() {
  return run('dpkg', ['--configure', '-a']) && apt('install', '-y', '--fix-broken');
}

function apt(...args) {
  return run('apt-get', ['-q', '-o', `DPkg::Lock::Timeout=${LOCK_SECONDS}`, ...args]);
}

function run(command, args) {
  console.error(`holdfast: ${command} ${args.join(' ')}`);
  const result = spawnSync(command, args, {
    // stdout belongs to the caller; progress and complaints go to stderr.
    stdio: ['ignore', 2, 2],
    timeout: 10 * 60 * 1000,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return result.status === 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) ensurePrograms(PROGRAMS[process.argv[2]]);
