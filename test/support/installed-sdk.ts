/** The SDK as its users have it: packed, and installed by npm in a folder of its own, with no network and nothing cached. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type PackedSdk, packSdk } from '../../tools/packages/pack-sdk.ts';
import { resultOf } from './command-result.ts';

export interface InstalledSdk {
  /** `node_modules` with the packages in it */
  readonly modules: string;
  readonly tarballs: PackedSdk;
}

/** Installs into `folder`, which is there; programs below it can import the packages. */
export async function installSdk(folder: string): Promise<InstalledSdk> {
  const tarballs = await packSdk(join(folder, 'tarballs'));
  await installOffline(folder, [tarballs.protocol, tarballs.client]);
  return { modules: join(folder, 'node_modules'), tarballs };
}

/** `npm install --offline`, as somebody who has never used npm before. */
async function installOffline(folder: string, tarballs: readonly string[]): Promise<void> {
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
  const child = Bun.spawn(['npm', 'install', '--offline', '--no-audit', '--no-fund', ...tarballs], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: home },
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const { exitCode, stdout, stderr } = await resultOf(child);
  if (exitCode !== 0) throw new Error(`npm cannot install the SDK:\n${stdout}${stderr}`);
}
