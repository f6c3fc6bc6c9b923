/** `bun packages/client/tools/write-tree-vectors.ts`: writes docs/tree-vectors.json. A change of any vector is a new format. */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { makeTreeVectors } from '../test/tree-vectors-fixture.ts';

const path = fileURLToPath(new URL('../../../docs/tree-vectors.json', import.meta.url));
await writeFile(path, `${JSON.stringify(await makeTreeVectors(), null, 2)}\n`);
console.log(`wrote ${path}`);
