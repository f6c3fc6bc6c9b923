/** `bun packages/protocol/tools/write-pack-vectors.ts`: writes test-vectors/pack-vectors.json. A change of any vector is a new format. */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { makePackVectors } from '../test/pack-vectors-fixture.ts';

const path = fileURLToPath(new URL('../test-vectors/pack-vectors.json', import.meta.url));
await writeFile(path, `${JSON.stringify(makePackVectors(), null, 2)}\n`);
console.log(`wrote ${path}`);
