/** The packages of others that went into the build, with their licences. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface ThirdPartyPackage {
  readonly name: string;
  readonly version: string;
  /** as SPDX names it */
  readonly license: string;
  /** as it lies in the package; absent where it has none */
  readonly licenseText?: string;
}

const ROOT = join(import.meta.dir, '..', '..');
const LICENSE_FILE = /^(?:licen[cs]e|notice)(?:[.-].*)?$/i;
/** Bun's package says MIT, which is its own part of the binary. */
const RUNTIME = 'bun';
const RUNTIME_NOTE =
  'Bun links JavaScriptCore (LGPL-2.1) and other libraries statically: https://bun.com/docs/project/licensing';

/** The packages that the files at `paths`, absolute ones, belong to, and the runtime; sorted by name. */
export function readThirdParty(paths: readonly string[]): readonly ThirdPartyPackage[] {
  const folders = new Set(paths.map(findPackageFolder).filter((folder) => folder !== undefined));
  const packages = [...folders, join(ROOT, 'node_modules', RUNTIME)].map(readPackage);
  return packages.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function findPackageFolder(path: string): string | undefined {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

function readPackage(folder: string): ThirdPartyPackage {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (typeof name !== 'string' || typeof version !== 'string' || typeof license !== 'string') {
    throw new Error(
      `${folder}/package.json does not say its name, version and licence; look before shipping it`,
    );
  }
  const texts = readdirSync(folder)
    .filter((file) => LICENSE_FILE.test(file))
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  if (name === RUNTIME) texts.push(RUNTIME_NOTE);
  return { name, version, license, ...(texts.length === 0 ? {} : { licenseText: texts.join('\n\n') }) };
}

/** One text for people. The same licence text stands there once. */
export function describeThirdParty(packages: readonly ThirdPartyPackage[]): string {
  const byText = Map.groupBy(packages, ({ license, licenseText }) => licenseText ?? `License: ${license}`);
  const parts = [...byText].map(([text, of]) => {
    const names = of.map(({ name, version, license }) => `- ${name} ${version} (${license})`);
    return `${names.join('\n')}\n\n${text}\n`;
  });
  return `Holdfast contains these packages of others, each under its own license.\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}
