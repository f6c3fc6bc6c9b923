/** Verifies a tree: every node is read once, hashed and compared with what those above say. Faults are collected with their paths. */

import { bytesToHash, HASH_TABLE_MAX, type Hash, HashTable } from '@holdfast/protocol';
import { checkHash, checkMethod, checkOptions } from '../../arguments.ts';
import type { CallOptions } from '../../operations.ts';
import { createSha256 } from '../../sha256.ts';
import { TreeFormatError } from '../format/tree-format.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import { type ExpectedDirectoryPart, expectChild, readDirectoryPart } from '../read/directory-parts.ts';
import { countContentBytes, type ExpectedFilePart, readFilePart } from '../read/file-parts.ts';
import type { NodeSource } from '../read/node-source.ts';
import { openTree, type TreeItem } from '../read/open-tree.ts';
import { formatPath, type TreePath } from './tree-path.ts';
import { explainNodeError } from './tree-read-error.ts';

export interface TreeFault {
  /** undefined is the root */
  readonly path: TreePath | undefined;
  readonly hash: Hash;
  readonly message: string;
}

export interface VerifyOptions extends CallOptions {
  /** Called for each fault as it is found. */
  readonly onFault?: ((fault: TreeFault) => void) | undefined;
  readonly progress?: ProgressReporter | undefined;
}

export interface VerifyResult {
  /** nodes that were read and are good; those that are shared count once */
  readonly nodes: number;
  /** of their contents */
  readonly bytes: number;
  readonly faults: number;
}

/** One node to be read, and what is expected of it. */
type Step =
  | {
      readonly type: 'directory';
      readonly hash: Hash;
      readonly path: TreePath | undefined;
      readonly expected: ExpectedDirectoryPart;
    }
  | {
      readonly type: 'file';
      readonly hash: Hash;
      readonly path: TreePath | undefined;
      readonly expected: ExpectedFilePart;
    }
  | {
      readonly type: 'symlink';
      readonly hash: Hash;
      readonly path: TreePath | undefined;
      readonly bytes: number;
    };

/** Throws only for failures that no node is to blame for: a lost connection, a refusal, the reason of the signal. */
export async function verifyTree(
  source: NodeSource,
  root: Hash,
  options: VerifyOptions = {},
): Promise<VerifyResult> {
  const call = { name: 'verifyTree', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'the source', source, 'readNode');
  checkHash(call, root, 'the root');
  checkOptions(call, options);
  return new Verification(source, options).run(root);
}

class Verification {
  /** counts what is read */
  readonly #source: NodeSource;
  readonly #uncounted: NodeSource;
  readonly #options: VerifyOptions;
  readonly #progress: ProgressReporter;
  readonly #good = new HashTable();
  /** The next one is last, so that memory is depth times width times nodes read at once. */
  readonly #stack: Step[] = [];
  /** the nodes that are being read, and the steps that wait for their outcome */
  readonly #reading = new Map<Hash, Step[]>();
  #readingBytes = 0;
  #failure: { readonly error: unknown } | undefined;
  #nodes = 0;
  #bytes = 0;
  #faults = 0;

  constructor(source: NodeSource, options: VerifyOptions) {
    this.#uncounted = source;
    this.#source = {
      get nodesAtOnce() {
        return source.nodesAtOnce;
      },
      readNode: async (hash, call) => {
        const node = await source.readNode(hash, call);
        this.#nodes += 1;
        this.#bytes += node.content.length;
        this.#progress.count({ bytes: node.content.length });
        return node;
      },
    };
    this.#options = options;
    this.#progress = options.progress ?? SILENT_PROGRESS;
  }

  async run(root: Hash): Promise<VerifyResult> {
    this.#progress.phase('check');
    const first = await this.#findRoot(root);
    if (first !== undefined) this.#stack.push(first);
    await new Promise<void>((resolve) => this.#readOn(resolve));
    if (this.#failure !== undefined) throw this.#failure.error;
    return { nodes: this.#nodes, bytes: this.#bytes, faults: this.#faults };
  }

  /** Keeps as many visits going as there may be; calls `onEnd` when none is left. */
  #readOn(onEnd: () => void): void {
    while (this.#mayReadOn() && this.#failure === undefined) {
      const step = this.#stack.pop();
      if (step === undefined) break;
      const key = keyOf(step);
      const twins = this.#reading.get(key);
      if (twins !== undefined) {
        twins.push(step);
        continue;
      }
      if (this.#good.has(key)) {
        this.#progress.count({ files: countEntries(step) });
        continue;
      }
      this.#progress.item(() => formatPath(step.path));
      this.#reading.set(key, []);
      const bytes = countNodeBytes(step);
      this.#readingBytes += bytes;
      void this.#visit(step, key).then(() => {
        this.#readingBytes -= bytes;
        this.#readOn(onEnd);
      });
    }
    if (this.#reading.size === 0) onEnd();
  }

  #mayReadOn(): boolean {
    // The source decides how many requests that makes.
    const { nodesAtOnce = 16 } = this.#source;
    // If many nodes come with one request, their bytes are counted.
    return this.#reading.size < nodesAtOnce && this.#readingBytes < 24 * 1024 * 1024;
  }

  /** Reads the kind of the root; its node is read, and counted, once more when it is visited. */
  async #findRoot(hash: Hash): Promise<Step | undefined> {
    let item: TreeItem;
    try {
      item = await openTree(this.#uncounted).readItem(hash, this.#options);
    } catch (error) {
      this.#addFault({ path: undefined, hash }, error);
      return undefined;
    }
    this.#progress.expect({ files: item.entryCount + 1 });
    return stepTo(item, undefined);
  }

  async #visit(step: Step, key: Hash): Promise<void> {
    const read = await this.#read(step).then(
      (children) => ({ children }),
      (error: unknown) => ({ error }),
    );
    // Nothing below awaits: another step for the same node comes before this and waits in `#reading`, or after it and finds `#good`.
    const places = [step, ...(this.#reading.get(key) ?? [])];
    this.#reading.delete(key);
    try {
      if ('error' in read) for (const place of places) this.#takeBad(place, read.error);
      else this.#takeGood(places, key, read.children);
    } catch (error) {
      this.#failure ??= { error };
    }
  }

  #takeGood([step, ...twins]: readonly Step[], key: Hash, children: Step[]): void {
    // Beyond what can be remembered, shared nodes are read again.
    if (this.#good.size < HASH_TABLE_MAX) this.#good.add(key);
    // The first child last: it comes next.
    this.#stack.push(...children.reverse());
    let files = step !== undefined && isEntry(step) ? 1 : 0;
    // The nodes below them are read for the first one alone.
    for (const twin of twins) files += countEntries(twin);
    this.#progress.count({ files });
  }

  /** Nothing below it can be read: that too is over. */
  #takeBad(step: Step, error: unknown): void {
    this.#addFault(step, error);
    this.#progress.count({ files: countEntries(step) });
    this.#progress.item(() => formatPath(step.path));
  }

  /** Reads one node; what is below it. */
  async #read(step: Step): Promise<Step[]> {
    const { hash, path } = step;
    const call = { signal: this.#options.signal };
    if (step.type === 'symlink') {
      await openTree(this.#source).readSymlink({ hash, bytes: step.bytes }, call);
      return [];
    }
    if (step.type === 'file') {
      const part = await readFilePart(this.#source, hash, step.expected, call);
      if (part.type !== 'file-index') return [];
      const level = part.level - 1;
      return part.children.map((child) => ({
        type: 'file',
        hash: child.hash,
        path,
        expected: { level, bytes: child.bytes },
      }));
    }
    const part = await readDirectoryPart(this.#source, hash, step.expected, call);
    if (part.type === 'directory') {
      return part.entries.map((entry) => stepTo(entry, { parent: path, name: entry.name }));
    }
    return part.children.map((child, at) => ({
      type: 'directory',
      hash: child.hash,
      path,
      expected: expectChild(part, at, step.expected.endName),
    }));
  }

  #addFault({ path, hash }: Pick<TreeFault, 'path' | 'hash'>, error: unknown): void {
    const message = explainNodeError(error);
    // Not the node's fault: a lost connection ends the job.
    if (message === undefined) throw error;
    this.#faults += 1;
    const faultHash = error instanceof TreeFormatError ? (error.hash ?? hash) : hash;
    this.#options.onFault?.({ path, hash: faultHash, message });
  }
}

/** Whether the step begins an entry of the tree, or its root: other nodes are parts of one. */
function isEntry(step: Step): boolean {
  return step.type === 'symlink' || step.expected.level === undefined;
}

/** Entries that the step stands for with all below it. */
function countEntries(step: Step): number {
  const own = isEntry(step) ? 1 : 0;
  return step.type === 'directory' ? own + (step.expected.totals?.entryCount ?? 0) : own;
}

function countNodeBytes(step: Step): number {
  if (step.type === 'symlink') return step.bytes;
  // A directory or an index counts as 16 KiB.
  return (step.type === 'file' ? countContentBytes(step.expected) : undefined) ?? 16 * 1024;
}

/** The node and all that is expected of it: the same page may be right in one place and wrong in another. */
function keyOf(step: Step): Hash {
  const sha256 = createSha256();
  const expected = step.type === 'symlink' ? { bytes: step.bytes } : step.expected;
  const parts = JSON.stringify([step.type, step.hash, expected], (_key, value: unknown) =>
    value instanceof Uint8Array ? Array.from(value) : value,
  );
  sha256.update(new TextEncoder().encode(parts));
  return bytesToHash(sha256.digest());
}

function stepTo(item: TreeItem, path: TreePath | undefined): Step {
  const { kind, hash, bytes, entryCount } = item;
  if (kind === 'symlink') return { type: 'symlink', hash, path, bytes };
  if (kind === 'file') return { type: 'file', hash, path, expected: { level: undefined, bytes } };
  return { type: 'directory', hash, path, expected: { totals: { bytes, entryCount } } };
}
