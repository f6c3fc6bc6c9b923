/** Builds the command line, all of its packages in one: as files that bun runs, and as one executable. */
import { join, resolve } from 'node:path';
import type { BuildConfig, BunPlugin } from 'bun';
import { type BuiltPage, readBuiltPage } from '../../packages/console/built-page.ts';

const ROOT = join(import.meta.dir, '..', '..');
/** The command, and the threads that it starts. */
const ENTRIES = [
  join(ROOT, 'packages', 'cli', 'start.ts'),
  join(ROOT, 'packages', 'server', 'engine', 'sqlite', 'writer', 'writer-thread.ts'),
  join(ROOT, 'packages', 'server', 'engine', 'sqlite', 'page-check-thread.ts'),
  join(ROOT, 'packages', 'files', 'writer', 'file-writer-thread.ts'),
];
/** The executable is made of the runtime that builds it. */
export const EXECUTABLE_NAME = 'holdfast-linux-x64';
const EXECUTABLE_PLATFORM = 'linux-x64';
const PLATFORM = `${process.platform}-${process.arch}`;
export const CAN_BUILD_EXECUTABLE = PLATFORM === EXECUTABLE_PLATFORM;

const SHARED: BuildConfig = {
  entrypoints: ENTRIES,
  root: ROOT,
  target: 'bun',
  format: 'esm',
  // All files lie in one folder: the thread's beside those that start it.
  naming: { entry: '[name].[ext]' },
  // Names stay, so that a stack trace in a log can be read.
  minify: { whitespace: true, syntax: true, identifiers: false },
  // A command loads only what it needs.
  splitting: true,
  metafile: true,
  // Some packages ask for their folder, to start threads that we never use; the builder's is nobody's business.
  define: { __dirname: '"/"', __filename: '"/"' },
};

const BUILT_PAGE_MODULE = /\/packages\/console\/built-page\.ts$/;

/** The console as it is served, in place of the module that builds it: a release has neither its sources nor their packages. */
function holdConsole({ main, style, parts }: BuiltPage): BunPlugin {
  const held: BuiltPage = { main, style, parts, inputs: [] };
  const contents = `const page = ${JSON.stringify(held)};\nexport const readBuiltPage = async () => page;\n`;
  return {
    name: 'console',
    setup: (build) => {
      build.onLoad({ filter: BUILT_PAGE_MODULE }, () => ({ contents, loader: 'js' }));
    },
  };
}

/** Fills `folder` with `start.js` and what it imports; returns the absolute paths of all that went in. */
export async function buildCommandFiles(folder: string): Promise<readonly string[]> {
  const page = await readBuiltPage();
  const { metafile } = await Bun.build({ ...SHARED, outdir: folder, plugins: [holdConsole(page)] });
  // They are told from the working directory.
  return [...Object.keys(metafile?.inputs ?? {}), ...page.inputs].map((path) => resolve(path));
}

/** Writes the executable into `folder`. The bundler's temporary file, `*.bun-build`, is for a moment in the working directory. */
export async function buildExecutable(folder: string): Promise<void> {
  if (!CAN_BUILD_EXECUTABLE) {
    throw new Error(`${EXECUTABLE_NAME} is built on ${EXECUTABLE_PLATFORM}, and this machine is ${PLATFORM}`);
  }
  await Bun.build({
    ...SHARED,
    plugins: [holdConsole(await readBuiltPage())],
    bytecode: true,
    compile: {
      outfile: join(folder, EXECUTABLE_NAME),
      // Files of the working directory are the user's, perhaps pulled from somewhere: they must not steer the process.
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadTsconfig: false,
      autoloadPackageJson: false,
    },
  });
}
