/** npm itself decides what a package holds, and gives every file the same time: the same files make the same tarball. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import rootPackage from '../../package.json' with { type: 'json' };

/** Writes the `package.json` of a package that is made from this repository; `fields` are its own. */
export function describePackage(
  folder: string,
  fields: { readonly name: string; readonly description: string } & Record<string, unknown>,
): void {
  const { version, license } = rootPackage;
  const text = JSON.stringify({ version, license, type: 'module', ...fields }, null, 2);
  writeFileSync(join(folder, 'package.json'), `${text}\n`);
}

/** Packs the package in `folder` into `outFolder`; resolves with the tarball's absolute path. */
export async function packPackage(folder: string, outFolder: string): Promise<string> {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', outFolder];
  const { stdout } = await promisify(execFile)('npm', args, { cwd: folder });
  const [{ filename }] = JSON.parse(stdout) as [{ readonly filename: string }];
  return resolve(outFolder, filename);
}
