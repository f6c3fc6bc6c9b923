/** `npm run dist`: everything that a release hands out, in `dist/`, or in the folder that is given. Nothing is published. */

import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import rootPackage from '../../package.json' with { type: 'json' };
import { packPackage } from '../packages/npm-pack.ts';
import { packSdk } from '../packages/pack-sdk.ts';
import { buildExecutable, EXECUTABLE_NAME } from './command-build.ts';
import { writeCommandPackage } from './command-package.ts';
import type { ThirdPartyPackage } from './third-party.ts';

/** The bill of materials of a release: CycloneDX 1.6, the same for the same input. */
interface Artefact {
  readonly name: string;
  readonly sha256: string;
}

interface Release {
  readonly version: string;
  readonly thirdParty: readonly ThirdPartyPackage[];
  readonly artefacts: readonly Artefact[];
}

function makeSbom({ version, thirdParty, artefacts }: Release): unknown {
  const product = { type: 'application', name: 'holdfast', version, purl: `pkg:npm/holdfast@${version}` };
  const libraries = thirdParty.map(({ name, version: of, license, licenseText }) => {
    const purl = `pkg:npm/${name.replace('@', '%40')}@${of}`;
    const text = licenseText === undefined ? {} : { text: { content: licenseText } };
    const licenses = /^[\w.+-]+$/.test(license)
      ? [{ license: { id: license, ...text } }]
      : [{ expression: license }];
    return { type: 'library', 'bom-ref': purl, name, version: of, scope: 'required', licenses, purl };
  });
  const files = artefacts.map(({ name, sha256 }) => {
    return { type: 'file', 'bom-ref': `file:${name}`, name, hashes: [{ alg: 'SHA-256', content: sha256 }] };
  });
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: { ...product, 'bom-ref': product.purl, licenses: [{ license: { id: 'Apache-2.0' } }] },
    },
    components: [...libraries, ...files],
    dependencies: [
      { ref: product.purl, dependsOn: libraries.map((library) => library['bom-ref']) },
      ...libraries.map((library) => ({ ref: library['bom-ref'] })),
    ],
  };
}

const ROOT = join(import.meta.dir, '..', '..');
/** The files from which a program in another language is made. */
const OPENAPI_NAME = 'openapi.json';
const OPENAPI = join(ROOT, 'packages', 'protocol', OPENAPI_NAME);

async function makeDist(target: string): Promise<void> {
  const { version } = rootPackage;
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const work = mkdtempSync(join(target, '.work-'));
  // The bundler writes paths from the working directory into what it makes.
  process.chdir(ROOT);
  try {
    const command = join(work, 'holdfast');
    const thirdParty = await writeCommandPackage(command);
    const sdk = await packSdk(target);
    const packages = [await packPackage(command, target), sdk.protocol, sdk.client];
    await buildExecutable(target);
    copyFileSync(OPENAPI, join(target, OPENAPI_NAME));
    const names = [...packages.map((path) => basename(path)), EXECUTABLE_NAME].sort();
    const artefacts = await Promise.all(names.map((name) => readArtefact(target, name)));
    const sbom = `${JSON.stringify(makeSbom({ version, thirdParty, artefacts }), null, 2)}\n`;
    writeFileSync(join(target, 'sbom.json'), sbom);
    const described = [OPENAPI_NAME, 'sbom.json'].map((name) => readArtefact(target, name));
    const summed = [...artefacts, ...(await Promise.all(described))];
    const lines = summed.map(({ name, sha256 }) => `${sha256}  ${name}\n`);
    writeFileSync(join(target, 'SHA256SUMS'), lines.join(''));
    for (const { name } of summed) console.log(join(target, name));
    console.log(join(target, 'SHA256SUMS'));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function readArtefact(folder: string, name: string): Promise<Artefact> {
  const digest = createHash('sha256');
  await pipeline(createReadStream(join(folder, name)), digest);
  return { name, sha256: digest.digest('hex') };
}

await makeDist(resolve(process.argv[2] ?? join(ROOT, 'dist')));
