/** `bun packages/client/tools/build.ts`: builds the publishable SDK into packages/client/dist. */
import { fileURLToPath } from 'node:url';
import { buildPackage } from './build-package.ts';

const folder = fileURLToPath(new URL('../dist', import.meta.url));
await buildPackage(folder);
console.log(`built ${folder}`);
