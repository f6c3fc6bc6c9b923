/** Writes packages/server/operator/openapi.json; a test fails while the committed file differs. */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { buildOperatorOpenApi } from '../openapi.ts';

const target = fileURLToPath(new URL('../openapi.json', import.meta.url));
await writeFile(target, `${JSON.stringify(buildOperatorOpenApi(), null, 2)}\n`);
console.log(`wrote ${target}`);
