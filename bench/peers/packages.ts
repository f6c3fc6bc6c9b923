/** Peers come from Debian, installed by the bench itself. Their services are kept from starting: we start our own. */
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs';

export interface PeerPackage {
  readonly package: string;
  readonly binary: string;
}

export const PEER_PACKAGES: readonly PeerPackage[] = [
  { package: 'wrk', binary: 'wrk' },
  { package: 'nginx-light', binary: 'nginx' },
  { package: 'docker-registry', binary: 'docker-registry' },
  { package: 'postgresql-15', binary: 'pgbench' },
  { package: 'radosgw', binary: 'radosgw' },
  { package: 'restic', binary: 'restic' },
  { package: 'borgbackup', binary: 'borg' },
  { package: 'rsync', binary: 'rsync' },
  { package: 'rclone', binary: 'rclone' },
];

const POLICY_FILE = '/usr/sbin/policy-rc.d';

/** The path of a peer's program, also where only root has it on the PATH. */
export function findProgram(binary: string): string | undefined {
  const path = `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin`;
  return Bun.which(binary, { PATH: path }) ?? undefined;
}

/** Names of packages that are still missing afterwards; the rows that need them are reported as not run. */
export function installPeers(wanted: readonly string[], progress: (text: string) => void): string[] {
  const missing = (): string[] =>
    PEER_PACKAGES.filter(
      (peer) => wanted.includes(peer.package) && findProgram(peer.binary) === undefined,
    ).map((peer) => peer.package);
  const toInstall = missing();
  if (toInstall.length === 0) return [];
  const prefix = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  progress(`installing from Debian: ${toInstall.join(' ')}`);
  const addedPolicy = prefix.length === 0 && addStartPolicy();
  try {
    const install = ['apt-get', 'install', '-y', '--no-install-recommends', ...toInstall];
    if (!run([...prefix, ...install])) run([...prefix, 'apt-get', 'update']) && run([...prefix, ...install]);
  } finally {
    if (addedPolicy) rmSync(POLICY_FILE, { force: true });
  }
  return missing();
}

/** Debian starts a service it installs unless this file says no (101). True when we made it and must remove it. */
function addStartPolicy(): boolean {
  if (existsSync(POLICY_FILE)) return false;
  writeFileSync(POLICY_FILE, '#!/bin/sh\nexit 101\n');
  chmodSync(POLICY_FILE, 0o755);
  return true;
}

function run(command: readonly string[]): boolean {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  try {
    return Bun.spawnSync([...command], { env, stdin: 'ignore' }).exitCode === 0;
  } catch {
    return false; // no such program: not a Debian machine
  }
}

export function packageVersion(name: string): string {
  const query = Bun.spawnSync(['dpkg-query', '--show', name]);
  return query.exitCode === 0 ? (query.stdout.toString().trim().split('\t')[1] ?? '') : 'not from Debian';
}
