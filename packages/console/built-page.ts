/** The files of the page, built when first asked for in a checkout. A release holds them built (tools/release/command-build.ts). */
import { basename, join } from 'node:path';

export interface BuiltFile {
  /** with the digest of its text in it, so that it can be kept for ever */
  readonly name: string;
  readonly text: string;
}

export interface BuiltPage {
  /** the first bytes of the page */
  readonly main: BuiltFile;
  readonly style: BuiltFile;
  /** modules that the first one loads when they are needed */
  readonly parts: readonly BuiltFile[];
  /** the files that went in, relative to the working directory */
  readonly inputs: readonly string[];
}

/** Rejects with what the bundler says. */
export async function readBuiltPage(): Promise<BuiltPage> {
  const { outputs, metafile } = await Bun.build({
    entrypoints: [join(import.meta.dir, 'page', 'main.tsx')],
    target: 'browser',
    format: 'esm',
    naming: '[name]-[hash].[ext]',
    splitting: true,
    minify: true,
    metafile: true,
    jsx: { runtime: 'automatic', importSource: 'preact', development: false },
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const files = await Promise.all(
    outputs.map(async (output) => ({
      name: basename(output.path),
      text: await output.text(),
      isMain: output.kind === 'entry-point',
    })),
  );
  const main = files.find(({ isMain }) => isMain);
  const style = files.find(({ name }) => name.endsWith('.css'));
  if (main === undefined || style === undefined) throw new Error('the bundler made no page of the console');
  const parts = files.filter((file) => file !== main && file !== style);
  return { main, style, parts, inputs: Object.keys(metafile?.inputs ?? {}) };
}
