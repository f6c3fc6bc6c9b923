/** Parts of the bench that must be processes of their own, so that they can be pinned and watched. */
import { writeFileSync } from 'node:fs';
import { runLoader } from './load/loader.ts';
import type { LoadSpec } from './load/spec.ts';
import { serveBareAnswer } from './peers/bare-answer.ts';
import { hashAndWrite } from './peers/hash-and-write.ts';
import { type CommitSpec, runCommits } from './peers/sqlite-commits.ts';
import { touchFreeMemory } from './trees/touched-memory.ts';

/** `bench/main.ts child NAME ARG…`; throws on a name nobody uses. */
export async function runChild(args: readonly string[], read: (path: string) => string): Promise<void> {
  const [name, first = '', second = '', third = ''] = args;
  if (name === 'loader') {
    const result = await runLoader(JSON.parse(read(first)) as LoadSpec);
    writeFileSync(second, JSON.stringify(result));
    process.exit(0);
  }
  if (name === 'sqlite-commits') {
    writeFileSync(second, JSON.stringify(runCommits(JSON.parse(read(first)) as CommitSpec)));
    process.exit(0);
  }
  if (name === 'hash-and-write') {
    writeFileSync(second, JSON.stringify(hashAndWrite(first, third)));
    process.exit(0);
  }
  if (name === 'touch-memory') {
    touchFreeMemory();
    process.exit(0);
  }
  if (name === 'bare-answer') return serveBareAnswer(first);
  throw new Error(`The bench has no child called ${name}.`);
}
