/**
 * Makes the npm packages of the SDK, `holdfast-protocol-V.tgz` and `holdfast-client-V.tgz`: built ES modules, their types, and
 * nothing that would have to be downloaded. V is the version of the repository. Runs on Bun; needs npm on the PATH.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { BunPlugin } from 'bun';
import rootPackage from '../../package.json' with { type: 'json' };
import * as clientDoor from '../../packages/client/index.ts';
import { describePackage, packPackage } from './npm-pack.ts';

const TYPES_CONFIG = fileURLToPath(new URL('./tsconfig.types.json', import.meta.url));
const TYPESCRIPT = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url));
const CLIENT_IMPORT = /((?:from |import\()['"])@holdfast\/client(\/internal|\/push)?(?=['"])/g;
const RELATIVE_IMPORT = /((?:from |import\()['"])(\.[^'"]*)\.(?:ts|js)(?=['"])/g;

/** Fills `folder` with the types of `packages/`, laid out as the sources are. Throws when anything does not compile. */
async function writeTypes(folder: string): Promise<void> {
  await compile(folder);
  for (const name of await readdir(folder, { recursive: true })) {
    if (!name.endsWith('.d.ts')) continue;
    const path = join(folder, name);
    const toClient = posix.relative(posix.dirname(name), 'client');
    const text = (await readFile(path, 'utf8'))
      .replace(RELATIVE_IMPORT, '$1$2.js')
      .replace(CLIENT_IMPORT, (_, start, door = '/index') => `${start}${toClient}${door}.js`);
    await writeFile(path, text);
  }
}

async function compile(folder: string): Promise<void> {
  try {
    await promisify(execFile)(TYPESCRIPT, ['-p', TYPES_CONFIG, '--outDir', folder]);
  } catch (cause) {
    const report = cause instanceof Error && 'stdout' in cause ? String(cause.stdout) : '';
    throw new Error(`the types of the SDK do not compile:\n${report}`, { cause });
  }
}

/** `doors`, and the files of `folder` that they import directly or not. All paths are relative to `folder`. */
async function listReachableTypes(folder: string, doors: readonly string[]): Promise<string[]> {
  const reachable = new Set(doors);
  for (const path of reachable) {
    const text = await readFile(join(folder, path), 'utf8');
    for (const [, , target = ''] of text.matchAll(RELATIVE_IMPORT)) {
      reachable.add(posix.join(posix.dirname(path), `${target}.d.ts`));
    }
  }
  return [...reachable];
}

const MODULES_FOLDER = fileURLToPath(new URL('../../node_modules', import.meta.url));
const PACKAGES_FOLDER = fileURLToPath(new URL('../../packages', import.meta.url));
const LICENSE_FILE = fileURLToPath(new URL('../../LICENSE', import.meta.url));
const { version, engines } = rootPackage;

/** One thing that a package lets others import. */
interface Door {
  /** as `exports` names it */
  readonly subpath: string;
  /** source, from packages/ */
  readonly source: string;
  /** in the package */
  readonly file: string;
  /** `browser`: a built-in of Node anywhere in it would show up as an import or a polyfill. */
  readonly target: 'browser' | 'node';
}

interface SdkPackage {
  readonly name: string;
  readonly description: string;
  readonly folder: string;
  readonly doors: readonly Door[];
  /** files beside the code, for other programs */
  readonly documents: readonly string[];
  readonly dependencies: readonly string[];
}

const PROTOCOL: SdkPackage = {
  name: '@holdfast/protocol',
  description: 'The Holdfast Space API as code: operations, schemas, errors, limits, canonical nodes',
  folder: 'protocol',
  doors: [{ subpath: '.', source: 'protocol/index.ts', file: 'index.js', target: 'browser' }],
  documents: ['openapi.json'],
  dependencies: [],
};

/** All code of the client's package that runs in browsers too; its door names a part of it. */
const CLIENT_CODE = 'internal.js';
const CLIENT: SdkPackage = {
  name: '@holdfast/client',
  description: 'Client of the Holdfast Space API: content-addressed nodes, leases, root refs, trees',
  folder: 'client',
  doors: [
    { subpath: '.', source: 'client/index.ts', file: 'index.js', target: 'browser' },
    { subpath: './node', source: 'files/sdk.ts', file: 'node.js', target: 'node' },
  ],
  documents: [],
  dependencies: [PROTOCOL.name],
};

/** The doors of one package share its code: an error of the one is an error of the other. */
const CLIENT_BESIDE: BunPlugin = {
  name: 'client-beside',
  setup: (build) => {
    const filter = /^@holdfast\/client(?:\/(?:internal|push))?$/;
    build.onResolve({ filter }, () => ({ path: `./${CLIENT_CODE}`, external: true }));
  },
};

/** Absolute paths of the tarballs. */
export interface PackedSdk {
  readonly protocol: string;
  readonly client: string;
}

/** Writes both tarballs into `outFolder`, which is made if it is not there. Throws when anything does not build. */
export async function packSdk(outFolder: string): Promise<PackedSdk> {
  await mkdir(outFolder, { recursive: true });
  const stage = await mkdtemp(join(tmpdir(), 'holdfast-pack-'));
  try {
    const types = join(stage, 'types');
    await writeTypes(types);
    const [protocol, client] = await Promise.all(
      [PROTOCOL, CLIENT].map(async (one) => {
        const folder = join(stage, one.folder);
        await fillPackage(one, types, folder);
        return packPackage(folder, outFolder);
      }),
    );
    return { protocol: protocol as string, client: client as string };
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}

async function fillPackage(one: SdkPackage, types: string, folder: string): Promise<void> {
  await mkdir(folder);
  const bundled = await Promise.all(listBundles(one).map((door) => bundle(door, folder)));
  if (one === CLIENT) {
    const text = `export { ${Object.keys(clientDoor).join(', ')} } from './${CLIENT_CODE}';\n`;
    await writeFile(join(folder, 'index.js'), text);
  }
  await writeLicenses(new Set(bundled.flat()), folder);
  await copyTypes(types, one, folder);
  describePackage(folder, listFields(one));
  await copyFile(join(PACKAGES_FOLDER, one.folder, 'README.md'), join(folder, 'README.md'));
  await copyFile(LICENSE_FILE, join(folder, 'LICENSE'));
  for (const file of one.documents)
    await copyFile(join(PACKAGES_FOLDER, one.folder, file), join(folder, file));
}

function listBundles({ doors }: SdkPackage): readonly Door[] {
  return doors.map((door) =>
    door.source === 'client/index.ts' ? { ...door, source: 'client/internal.ts', file: CLIENT_CODE } : door,
  );
}

/** Names the packages of others that the door carries with it. */
async function bundle({ source, file, target }: Door, folder: string): Promise<string[]> {
  const { metafile } = await Bun.build({
    entrypoints: [join(PACKAGES_FOLDER, source)],
    outdir: folder,
    naming: file,
    target,
    format: 'esm',
    external: [PROTOCOL.name],
    plugins: [CLIENT_BESIDE],
    metafile: true,
  });
  return Object.keys(metafile?.inputs ?? {}).flatMap((path) => {
    const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    return name === undefined ? [] : [name];
  });
}

/** The authors of bundled code, each with the licence it is passed on under. */
async function writeLicenses(names: ReadonlySet<string>, folder: string): Promise<void> {
  if (names.size === 0) return;
  const texts: string[] = [];
  for (const name of names) {
    const from = join(MODULES_FOLDER, name);
    const file = (await readdir(from)).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) throw new Error(`${name} is bundled and has no licence file`);
    texts.push(`${name}\n\n${(await readFile(join(from, file), 'utf8')).trim()}\n`);
  }
  await writeFile(join(folder, 'THIRD-PARTY-LICENSES'), texts.join('\n\n'));
}

/** Types of the doors and of what these import, nothing else. */
async function copyTypes(types: string, one: SdkPackage, folder: string): Promise<void> {
  for (const path of await listReachableTypes(types, one.doors.map(typesOf))) {
    const target = join(folder, 'types', path);
    await mkdir(dirname(target), { recursive: true });
    await copyFile(join(types, path), target);
  }
}

const typesOf = ({ source }: Door): string => source.replace(/\.ts$/, '.d.ts');

function listFields({ name, description, doors, documents, dependencies }: SdkPackage) {
  return {
    name,
    description,
    sideEffects: false,
    engines,
    files: ['*.js', 'types', 'THIRD-PARTY-LICENSES', ...documents],
    exports: Object.fromEntries([
      ...doors.map((door) => [
        door.subpath,
        { types: `./types/${typesOf(door)}`, default: `./${door.file}` },
      ]),
      ...documents.map((file) => [`./${file}`, `./${file}`]),
    ]),
    ...(dependencies.length === 0
      ? {}
      : { dependencies: Object.fromEntries(dependencies.map((dependency) => [dependency, version])) }),
  };
}
