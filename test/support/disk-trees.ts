/**
 * Trees as plans, put on a real disk and built in memory: the plan gives the root hash by the format's own builders, without
 * the scanner, so that a scan of the disk has something to agree with.
 */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import {
  type BuiltFile,
  buildSymlink,
  chunkStream,
  compareNames,
  DirectoryBuilder,
  type DirectoryEntry,
  FileBuilder,
  MemoryTree,
} from '../../packages/client/internal.ts';
import { seededBytes } from './canonical-node.ts';

/** A file of seeded bytes, a link, or a folder; names are strings of raw bytes, one character each. */
export type Plan =
  | { readonly kind: 'file'; readonly size: number; readonly seed: number; readonly isExecutable?: boolean }
  | { readonly kind: 'symlink'; readonly target: string }
  | { readonly kind: 'directory'; readonly entries: ReadonlyMap<string, Plan> };

export type DirectoryPlan = Extract<Plan, { kind: 'directory' }>;

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

export function directory(entries: Readonly<Record<string, Plan>> = {}): DirectoryPlan {
  return { kind: 'directory', entries: new Map(Object.entries(entries)) };
}

export function file(size: number, seed = size): Plan {
  return { kind: 'file', size, seed };
}

export function contentOf({ size, seed }: Extract<Plan, { kind: 'file' }>): Uint8Array {
  return seededBytes(size, seed);
}

/** `path` must not exist. */
export function writePlan(path: string | Buffer, plan: Plan): void {
  switch (plan.kind) {
    case 'file':
      writeFileSync(path, contentOf(plan));
      chmodSync(path, plan.isExecutable ? 0o755 : 0o644);
      return;
    case 'symlink':
      symlinkSync(bytes(plan.target), path);
      return;
    case 'directory':
      mkdirSync(path);
      for (const [name, below] of plan.entries)
        writePlan(Buffer.concat([Buffer.from(path), bytes(`/${name}`)]), below);
  }
}

/** The nodes the plan makes, and the hash of its root. `mtimeNs`: the time of every entry; the tree has none when it is left out. */
export async function buildPlan(
  plan: Plan,
  mtimeNs?: bigint,
): Promise<{ readonly root: string; readonly tree: MemoryTree }> {
  const tree = new MemoryTree();
  return { root: (await build(tree, plan, mtimeNs)).hash, tree };
}

async function build(
  tree: MemoryTree,
  plan: Plan,
  mtimeNs: bigint | undefined,
): Promise<BuiltFile & { readonly entryCount: number }> {
  switch (plan.kind) {
    case 'file': {
      const builder = new FileBuilder(tree);
      for await (const chunk of chunkStream([contentOf(plan)])) await builder.add(chunk);
      return { ...(await builder.finish()), entryCount: 0 };
    }
    case 'symlink':
      return { ...(await buildSymlink(tree, bytes(plan.target))), entryCount: 0 };
    case 'directory': {
      const builder = new DirectoryBuilder(tree);
      const sorted = [...plan.entries].map(([name, below]) => ({ name: bytes(name), below }));
      sorted.sort((a, b) => compareNames(a.name, b.name));
      for (const { name, below } of sorted) {
        const isExecutable = below.kind === 'file' && below.isExecutable === true;
        const entry: DirectoryEntry = {
          name: new Uint8Array(name),
          kind: below.kind,
          ...(await build(tree, below, mtimeNs)),
          isExecutable,
          mtimeNs,
        };
        await builder.add(entry);
      }
      return builder.finish();
    }
  }
}

const NAME_CHARACTERS = fc.constantFrom(
  ...['a', 'b', 'Z', '0', '.', '-', ' ', '\\', '*', '\n', '\u001b', '"', '\u007f'],
  // As raw bytes: UTF-8 of ü and of 💾, and bytes that are no UTF-8.
  ...['\u00c3\u00bc', '\u00f0\u009f\u0092\u00be', '\u00ff', '\u00c3\u0028', '\u00ef\u00bf\u00bd'],
);
const names = fc
  .array(NAME_CHARACTERS, { minLength: 1, maxLength: 12 })
  .map((parts) => parts.join(''))
  .filter((name) => name !== '.' && name !== '..');
const sizes = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
  { weight: 2, arbitrary: fc.constantFrom(0, 1, 65_536, 262_143, 262_144, 262_145) },
  { weight: 1, arbitrary: fc.integer({ min: 262_145, max: 6_000_000 }) },
);
const files = fc.record({
  kind: fc.constant('file' as const),
  size: sizes,
  // Few seeds: twins are what deduplication is about.
  seed: fc.integer({ min: 1, max: 5 }),
  isExecutable: fc.boolean(),
});
const links = fc.record({
  kind: fc.constant('symlink' as const),
  target: fc.constantFrom('nowhere', '/', '../..', 'a', '\u00ff\u00fe', '.'),
});

/** Small trees of every kind of oddity. */
export const plans: fc.Arbitrary<DirectoryPlan> = fc.letrec<{ directory: DirectoryPlan; entry: Plan }>(
  (tie) => ({
    entry: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      { weight: 5, arbitrary: files },
      { weight: 1, arbitrary: links },
      { weight: 3, arbitrary: tie('directory') },
    ),
    directory: fc.array(fc.tuple(names, tie('entry')), { maxLength: 8 }).map((entries) => ({
      kind: 'directory' as const,
      entries: new Map(entries),
    })),
  }),
).directory;

/** The shapes that are too large or too deep for chance. */
export function makeLargePlans(): Readonly<Record<string, DirectoryPlan>> {
  let deep = directory({ bottom: file(10) });
  for (let level = 0; level < 300; level += 1) deep = directory({ d: deep });
  const wide = directory(
    Object.fromEntries(Array.from({ length: 1_200 }, (_, i) => [`f${i}`, file(i % 7, i % 50)])),
  );
  const huge = directory({ huge: file(20_000_000, 3), next: file(3, 1) });
  return { deep, wide, huge, empty: directory() };
}
