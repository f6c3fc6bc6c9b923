/** The npm package of the command: built files, its launcher, and bun as the only package it needs. */
import { chmodSync, cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import rootPackage from '../../package.json' with { type: 'json' };
import { describePackage } from '../packages/npm-pack.ts';
import { buildCommandFiles } from './command-build.ts';
import { describeThirdParty, readThirdParty, type ThirdPartyPackage } from './third-party.ts';

const ROOT = join(import.meta.dir, '..', '..');
/** Taken as they stand, at the same places: the README links to them. */
const COPIED = ['bin', 'deploy', 'docs', 'CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md'];

/** Fills `folder`, which `npm pack` then packs; returns the packages of others that went in. */
export async function writeCommandPackage(folder: string): Promise<readonly ThirdPartyPackage[]> {
  mkdirSync(folder, { recursive: true });
  const thirdParty = readThirdParty(await buildCommandFiles(join(folder, 'lib')));
  for (const name of COPIED) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  chmodSync(join(folder, 'bin', 'holdfast'), 0o755);
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), describeThirdParty(thirdParty));
  const { name, description, dependencies } = rootPackage;
  describePackage(folder, {
    name,
    description,
    os: ['linux', 'darwin'],
    bin: { holdfast: 'bin/holdfast' },
    dependencies: { bun: dependencies.bun },
  });
  return thirdParty;
}
