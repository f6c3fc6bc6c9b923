/** The bill of materials of a release: CycloneDX 1.6, the same for the same input. */
import type { ThirdPartyPackage } from './third-party.ts';

export interface Artefact {
  readonly name: string;
  readonly sha256: string;
}

export interface Release {
  readonly version: string;
  readonly thirdParty: readonly ThirdPartyPackage[];
  readonly artefacts: readonly Artefact[];
}

export function makeSbom({ version, thirdParty, artefacts }: Release): unknown {
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
