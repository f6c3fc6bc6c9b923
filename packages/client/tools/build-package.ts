/** Makes the SDK as it is published: one ES module without imports, its types, and a package.json without dependencies. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import clientPackage from '../package.json' with { type: 'json' };

const CLIENT_FOLDER = fileURLToPath(new URL('..', import.meta.url));
const TYPES_CONFIG = join(CLIENT_FOLDER, 'tools', 'tsconfig.types.json');
const TYPESCRIPT = fileURLToPath(new URL('../../../node_modules/.bin/tsc', import.meta.url));

/** Fills `folder`, emptied first. Throws when anything does not build. */
export async function buildPackage(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await Promise.all([bundle(folder), writeTypes(folder)]);
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(describePackage(), null, 2)}\n`);
  await copyFile(join(CLIENT_FOLDER, 'README.md'), join(folder, 'README.md'));
}

/** For browsers: a Node built-in anywhere in the sources would show up as an import or a polyfill. */
async function bundle(folder: string): Promise<void> {
  await Bun.build({
    entrypoints: [join(CLIENT_FOLDER, 'index.ts')],
    outdir: folder,
    naming: 'index.js',
    target: 'browser',
    format: 'esm',
  });
}

async function writeTypes(folder: string): Promise<void> {
  const types = join(folder, 'types');
  await promisify(execFile)(TYPESCRIPT, ['-p', TYPES_CONFIG, '--outDir', types]);
  const protocol = join(types, 'protocol', 'index.js');
  for (const name of await readdir(types, { recursive: true })) {
    if (!name.endsWith('.d.ts')) continue;
    const path = join(types, name);
    const toProtocol = relative(dirname(path), protocol).replaceAll('\\', '/');
    const text = (await readFile(path, 'utf8'))
      // Readers of the package have no sources: the names in the types are those of JavaScript files.
      .replace(/(from ['"]|import\(['"])@holdfast\/protocol(?=['"])/g, `$1${toProtocol}`)
      .replace(/((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js');
    await writeFile(path, text);
  }
}

function describePackage(): Record<string, unknown> {
  return {
    name: clientPackage.name,
    version: clientPackage.version,
    description: 'Client of the Holdfast Space API: content-addressed nodes, leases, root refs',
    license: 'Apache-2.0',
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20' },
    exports: { '.': { types: './types/client/index.d.ts', default: './index.js' } },
  };
}
