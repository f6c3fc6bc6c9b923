/** Trees that tests pull: built of plans in memory, and what then stands on disk read back as a plan. */
import { expect } from 'bun:test';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Hash,
  MemoryTree,
  type NodeParts,
  type NodeSource,
  PullTargetError,
} from '@holdfast/client/internal';
import { buildPlan, contentOf, type Plan } from '../../../test/support/disk-trees.ts';

/** Nodes in memory; counts what is read, and does on demand what a Space does not do. */
export class PlanSource implements NodeSource {
  readonly reads: Hash[] = [];
  /** called before each read; what it throws is thrown */
  onRead: (hash: Hash, node: NodeParts) => void | Promise<void> = () => undefined;
  readonly #tree: MemoryTree;

  constructor(tree: MemoryTree = new MemoryTree()) {
    this.#tree = tree;
  }

  find(hash: Hash): NodeParts {
    const node = this.#tree.nodes.get(hash);
    if (node === undefined) throw new Error(`there is no node ${hash}`);
    return node;
  }

  async readNode(hash: Hash): Promise<NodeParts> {
    const node = this.find(hash);
    await this.onRead(hash, node);
    this.reads.push(hash);
    return node;
  }
}

export async function makeSource(
  plan: Plan,
  mtimeNs?: bigint,
): Promise<{ root: Hash; source: PlanSource; tree: MemoryTree }> {
  const { root, tree } = await buildPlan(plan, mtimeNs);
  return { root, tree, source: new PlanSource(tree) };
}

/** A function that names a path below `folder` at each call, each a new one. */
export function freshPaths(folder: string): () => string {
  let count = 0;
  return () => {
    count += 1;
    return join(folder, `target-${count}`);
  };
}

/** Fails unless pulling rejects with an error of that kind; its message. */
export async function failureOf(
  pulling: Promise<unknown>,
  kind: new (...args: never[]) => Error = PullTargetError,
): Promise<string> {
  const error = await pulling.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(kind);
  return (error as Error).message;
}

/** The entries below a path, comparable by `toEqual`; names are strings of raw bytes. */
export type Standing =
  | { readonly kind: 'file'; readonly digest: string; readonly size: number; readonly isExecutable: boolean }
  | { readonly kind: 'symlink'; readonly target: string }
  | { readonly kind: 'directory'; readonly entries: Readonly<Record<string, Standing>> };

export function readStanding(path: string | Buffer): Standing {
  const at = Buffer.from(path);
  const stat = lstatSync(at);
  if (stat.isSymbolicLink())
    return { kind: 'symlink', target: readlinkSync(at, { encoding: 'buffer' }).toString('latin1') };
  if (stat.isFile()) {
    return { kind: 'file', ...describe(readFileSync(at)), isExecutable: (stat.mode & 0o111) !== 0 };
  }
  const names = readdirSync(at, { encoding: 'buffer' }).sort(Buffer.compare);
  const entries = names.map((name) => [
    name.toString('latin1'),
    readStanding(Buffer.concat([at, Buffer.from('/'), name])),
  ]);
  return { kind: 'directory', entries: Object.fromEntries(entries) };
}

export function standingOf(plan: Plan): Standing {
  switch (plan.kind) {
    case 'file':
      return { kind: 'file', ...describe(contentOf(plan)), isExecutable: plan.isExecutable === true };
    case 'symlink':
      return plan;
    case 'directory': {
      const sorted = [...plan.entries].sort(([a], [b]) =>
        Buffer.compare(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1')),
      );
      return {
        kind: 'directory',
        entries: Object.fromEntries(sorted.map(([name, below]) => [name, standingOf(below)])),
      };
    }
  }
}

function describe(content: Uint8Array): { digest: string; size: number } {
  return {
    digest: new Bun.CryptoHasher('sha256').update(content).digest('hex'),
    size: content.length,
  };
}
