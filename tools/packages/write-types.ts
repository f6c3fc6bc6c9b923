/** The types of the SDK for those who have no sources: `.d.ts` files that name each other as JavaScript does. */
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const TYPES_CONFIG = fileURLToPath(new URL('./tsconfig.types.json', import.meta.url));
const TYPESCRIPT = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url));
const CLIENT_IMPORT = /((?:from |import\()['"])@holdfast\/client(\/internal|\/push)?(?=['"])/g;
const RELATIVE_IMPORT = /((?:from |import\()['"])(\.[^'"]*)\.(?:ts|js)(?=['"])/g;

/** Fills `folder` with the types of `packages/`, laid out as the sources are. Throws when anything does not compile. */
export async function writeTypes(folder: string): Promise<void> {
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
export async function listReachableTypes(folder: string, doors: readonly string[]): Promise<string[]> {
  const reachable = new Set(doors);
  for (const path of reachable) {
    const text = await readFile(join(folder, path), 'utf8');
    for (const [, , target = ''] of text.matchAll(RELATIVE_IMPORT)) {
      reachable.add(posix.join(posix.dirname(path), `${target}.d.ts`));
    }
  }
  return [...reachable];
}
