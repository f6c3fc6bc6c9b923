/** npm itself decides what a package holds, and gives every file the same time: the same files make the same tarball. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

/** Packs the package in `folder` into `outFolder`; resolves with the tarball's absolute path. */
export async function packPackage(folder: string, outFolder: string): Promise<string> {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', outFolder];
  const { stdout } = await promisify(execFile)('npm', args, { cwd: folder });
  const [{ filename }] = JSON.parse(stdout) as [{ readonly filename: string }];
  return resolve(outFolder, filename);
}
