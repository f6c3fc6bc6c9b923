/** The push engine against one Space in memory: what it asks, in which order, how often, and what it does about faults. */
import { describe, expect, test } from 'bun:test';
import { CasError } from '../../errors.ts';
import { FakeSpace, failure, json } from '../../test/fake-space-fixture.ts';
import { buildSmallFile, DirectoryBuilder } from '../build/builders.ts';
import type { DirectoryEntry } from '../format/tree-format.ts';
import { type ProgressCounters, type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import { MemoryTree } from './memory-tree.ts';
import { SourceChangedError } from './node-supply.ts';
import { planPush } from './plan-push.ts';
import { type PushOptions, pushTree } from './push-tree.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

/** A tree from nested objects of names to texts. */
type Plan = { readonly [name: string]: string | Plan };

async function build(
  tree: MemoryTree,
  plan: Plan,
): Promise<{ hash: string; bytes: number; entryCount: number }> {
  const directory = new DirectoryBuilder(tree);
  for (const name of Object.keys(plan).sort()) {
    const value = plan[name] as string | Plan;
    const built =
      typeof value === 'string'
        ? { ...(await buildSmallFile(tree, text(value))), entryCount: 0 }
        : await build(tree, value);
    const kind = typeof value === 'string' ? 'file' : 'directory';
    const entry: DirectoryEntry = {
      name: text(name),
      kind,
      ...built,
      isExecutable: false,
      mtimeNs: undefined,
    };
    await directory.add(entry);
  }
  return directory.finish();
}

class Counting {
  readonly totals: ProgressCounters = {
    files: 0,
    bytes: 0,
    deduplicatedBytes: 0,
    transferredNodes: 0,
    transferredBytes: 0,
    requests: 0,
  };
  readonly causes: string[] = [];
  readonly warnings: string[] = [];
  readonly reporter: ProgressReporter = {
    ...SILENT_PROGRESS,
    count: (more) => {
      for (const [name, value] of Object.entries(more))
        (this.totals as unknown as Record<string, number>)[name]! += value;
    },
    waitFor: (cause) => {
      this.causes.push(typeof cause === 'function' ? cause() : cause);
      return () => undefined;
    },
    warn: (message) => {
      this.warnings.push(message);
    },
  };
}

async function push(space: FakeSpace, plan: Plan, options: PushOptions = {}) {
  const tree = new MemoryTree();
  const { hash } = await build(tree, plan);
  const counting = new Counting();
  const client = space.client({ retry: { attemptsMax: 1 } });
  const before = space.calls.length;
  const result = pushTree(client, tree.supply(hash), {
    clock: space.clock,
    random: () => 0.5,
    progress: counting.reporter,
    ...options,
  });
  return { ...(await result), tree, counting, calls: space.calls.slice(before) };
}

const manyFiles = (count: number, salt = ''): Plan =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `file-${String(index).padStart(5, '0')}`,
      `${salt}content ${index}`,
    ]),
  );

const PLAN: Plan = {
  a: { b: { c: { deep: 'down' } } },
  many: manyFiles(300),
  same: { one: 'twin', two: 'twin', again: { one: 'twin', two: 'twin' } },
  empty: {},
};

describe('pushTree', () => {
  test('makes every node ready with at most four requests each', async () => {
    const space = new FakeSpace();
    const { root, tree, calls, counting, uploadedNodes } = await push(space, PLAN);
    expect([...space.nodes.keys()].sort()).toEqual([...tree.nodes.keys()].sort());
    expect(space.nodes.has(root)).toBe(true);
    expect(uploadedNodes).toBe(tree.nodes.size);
    expect(calls.length).toBeLessThanOrEqual(4 * tree.nodes.size);
    expect(calls.filter(({ kind }) => kind === 'upload').length).toBe(tree.nodes.size);
    expect(counting.totals).toMatchObject({
      files: tree.supply(root).root.entryCount,
      bytes: tree.supply(root).root.bytes,
      // The first asked for Bulk.
      requests: calls.length + 1,
    });
  });

  test('asks once for a tree that is there', async () => {
    const space = new FakeSpace();
    await push(space, PLAN);
    const again = await push(space, PLAN);
    expect(again.calls.map(({ kind }) => kind)).toEqual(['lease']);
    expect(again.uploadedNodes).toBe(0);
    expect(again.counting.totals.deduplicatedBytes).toBe(again.counting.totals.bytes);
  });

  test('walks only the path to a change', async () => {
    const space = new FakeSpace();
    await push(space, PLAN);
    const { calls, uploadedNodes } = await push(space, { ...PLAN, a: { b: { c: { deep: 'changed' } } } });
    // The root, a, b, c and the file.
    expect(uploadedNodes).toBe(5);
    expect(calls.length).toBeLessThanOrEqual(4 * 5);
  });

  test('check leases every node and uploads what was lost below a ready root', async () => {
    const space = new FakeSpace();
    const { tree, root } = await push(space, PLAN);
    const victim = [...tree.nodes].find(([, node]) => node.contentType.includes('tree.file.'))?.[0] as string;
    space.nodes.delete(victim);
    expect((await push(space, PLAN)).calls.length).toBe(1);
    const checked = await push(space, PLAN, { check: true });
    expect(space.nodes.has(victim)).toBe(true);
    expect(checked.uploadedNodes).toBe(1);
    expect(checked.root).toBe(root);
    const leased = new Set(
      checked.calls.filter(({ kind }) => kind === 'lease').map(({ url }) => url.pathname),
    );
    expect(leased.size).toBe(tree.nodes.size);
  });

  describe('in a Space where the server knows of damaged nodes', () => {
    const loseFile = (space: FakeSpace, tree: MemoryTree): string => {
      const [hash] = [...tree.nodes].find(([, node]) => node.contentType.includes('tree.file.')) ?? [''];
      space.nodes.delete(hash);
      return hash;
    };

    test('believes no ready node, uploads what was lost of the tree, and says so', async () => {
      const space = new FakeSpace();
      const { tree } = await push(space, PLAN);
      const victim = loseFile(space, tree);
      space.rottenNodes = 3;
      const { uploadedNodes, rottenNodes, counting, calls } = await push(space, PLAN);
      expect(space.nodes.has(victim)).toBe(true);
      expect([uploadedNodes, rottenNodes]).toEqual([1, 3]);
      expect(new Set(calls.map(({ url }) => url.pathname)).size).toBeGreaterThanOrEqual(tree.nodes.size);
      expect(counting.warnings).toEqual([expect.stringContaining('knows of 3 damaged nodes in this Space')]);
    });

    test('looks again at what it believed before the server knew', async () => {
      const space = new FakeSpace();
      const { tree } = await push(space, { ...PLAN, z: 'before' });
      const victim = loseFile(space, tree);
      // After the root: that its other children are ready was believed when it named the one that it waits for.
      space.plant(
        'upload',
        () => undefined,
        () => {
          space.rottenNodes = 1;
          return undefined;
        },
      );
      const { uploadedNodes } = await push(space, { ...PLAN, z: 'after' });
      expect(space.nodes.has(victim)).toBe(true);
      expect(uploadedNodes).toBe(3);
    });

    test('tells a plan', async () => {
      const space = new FakeSpace();
      const { tree, root } = await push(space, PLAN);
      space.rottenNodes = 2;
      const plan = await planPush(space.client(), tree.supply(root), { clock: space.clock });
      expect(plan).toMatchObject({ missingNodes: 0, rottenNodes: 2 });
    });
  });

  test('waits out 429, 503 and broken connections, and says why', async () => {
    const space = new FakeSpace();
    space.plant(
      'lease',
      () => failure(429, 'CAS_UPLOAD_LIMIT', { 'retry-after': '2' }),
      () => failure(503, 'SERVICE_UNAVAILABLE'),
    );
    space.plant('upload', () => {
      throw new TypeError('connection reset');
    });
    const { counting, tree } = await push(space, { a: 'b' });
    expect(space.nodes.size).toBe(tree.nodes.size);
    const causes = counting.causes.join('\n');
    expect(causes).toContain('CAS_UPLOAD_LIMIT');
    expect(causes).toContain('connection reset');
    expect(Math.max(...space.clock.waits.filter((ms) => ms < 60_000))).toBeGreaterThanOrEqual(2000);
  });

  test('gives up after its patience', async () => {
    const space = new FakeSpace();
    const client = space.client({
      retry: { attemptsMax: 1 },
      fetch: async () => {
        throw new TypeError('refused');
      },
    });
    const tree = new MemoryTree();
    const { hash } = await build(tree, { a: 'b' });
    const pushing = pushTree(client, tree.supply(hash), {
      clock: space.clock,
      random: () => 0.5,
      patienceMs: 60_000,
    });
    const error = await pushing.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CasError);
    expect((error as CasError).code).toBe('CONNECTION_FAILED');
  });

  test('ends at once when the token is refused, and goes on later', async () => {
    const space = new FakeSpace();
    space.plant('lease', ...Array.from({ length: 20 }, () => () => undefined), () =>
      failure(401, 'invalid_token'),
    );
    const error = await push(space, PLAN).catch((reason: unknown) => reason);
    expect((error as CasError).code).toBe('invalid_token');
    const before = space.calls.filter(({ kind }) => kind === 'upload').length;
    const { tree } = await push(space, PLAN);
    expect(space.nodes.size).toBe(tree.nodes.size);
    // Uploads that ended are not repeated; those that were given up in flight may be.
    const uploads = space.calls.filter(({ kind }) => kind === 'upload');
    expect(uploads.length).toBe(tree.nodes.size);
    expect(before).toBeGreaterThan(0);
  });

  test('names the source when its bytes are no longer what they were', async () => {
    const space = new FakeSpace();
    const tree = new MemoryTree();
    const { hash } = await build(tree, { a: 'b' });
    const supply = tree.supply(hash);
    const wrong = {
      ...supply,
      nameOf: () => 'the file',
      makeNode: async (node: typeof supply.root) => {
        const bytes = await supply.makeNode(node);
        if (node.hash !== hash) bytes[bytes.length - 1]! ^= 1;
        return bytes;
      },
    };
    const error = await pushTree(space.client(), wrong, { clock: space.clock }).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(SourceChangedError);
    expect((error as SourceChangedError).source).toBe('the file');
  });

  test('names the entry whose node is larger than the server takes, and the limit to raise', async () => {
    const tree = new MemoryTree();
    const { hash } = await build(tree, { a: 'b' });
    const rejected = {
      hash,
      state: 'awaiting_replacement_upload',
      rejection: { code: 'NODE_TOO_LARGE', message: 'too large' },
      upload: { method: 'PUT', url: 'http://store.test/uploads/x/0', expiresAt: 1, headers: {} },
    };
    for (const code of ['PAYLOAD_TOO_LARGE', 'NODE_TOO_LARGE']) {
      const space = new FakeSpace();
      if (code === 'PAYLOAD_TOO_LARGE') space.plant('upload', () => failure(413, code));
      else
        space.plant(
          'lease',
          () => undefined,
          () => json(rejected),
        );
      const supply = { ...tree.supply(hash), nameOf: () => 'the folder' };
      const error = await pushTree(space.client(), supply, { clock: space.clock }).catch(
        (reason: unknown) => reason,
      );
      expect(error).toBeInstanceOf(CasError);
      expect((error as CasError).message).toStartWith(
        'the folder needs a larger node than the server takes: raise its --max-node-bytes',
      );
      expect((error as CasError).code as string).toBe(code);
    }
  });

  test('sends again what was damaged on the way', async () => {
    const space = new FakeSpace();
    space.plant('upload', (call) => {
      call.body[call.body.length - 1]! ^= 1;
      return undefined;
    });
    const { tree } = await push(space, { a: 'b' });
    expect(space.nodes.size).toBe(tree.nodes.size);
  });

  test('leases parents that wait for long again, so that none is dropped', async () => {
    const space = new FakeSpace();
    const tree = new MemoryTree();
    const { hash } = await build(tree, PLAN);
    const supply = tree.supply(hash);
    let open = (): void => undefined;
    const isOpen = new Promise<void>((resolve) => {
      open = resolve;
    });
    const held = {
      ...supply,
      // Parents pass, leaves wait: by now the root has waited for hours.
      makeNode: async (node: typeof supply.root) => {
        if ((tree.nodes.get(node.hash)?.refs.length ?? 0) === 0) await isOpen;
        return supply.makeNode(node);
      },
    };
    const pushing = pushTree(space.client(), held, { clock: space.clock, random: () => 0.5 });
    const leasesOfRoot = (): number =>
      space.calls.filter(({ kind, url }) => kind === 'lease' && url.pathname.includes(hash)).length;
    while (leasesOfRoot() < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 20));
    space.clock.expire();
    for (let tries = 0; leasesOfRoot() < 3 && tries < 1_000; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 1));
    expect(leasesOfRoot()).toBe(3);
    open();
    expect((await pushing).root).toBe(hash);
    expect(space.nodes.size).toBe(tree.nodes.size);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('refuses a server that names children the node does not have', async () => {
    const space = new FakeSpace();
    space.plant('lease', () => json({ hash: 'x', state: 'ready' }));
    const stranger = 'f'.repeat(64);
    const client = space.client();
    const lying = {
      ...client,
      leaseNode: async (hash: string) => ({
        state: 'validated_awaiting_children' as const,
        hash,
        childHashes: [stranger],
      }),
    };
    const tree = new MemoryTree();
    const { hash } = await build(tree, { a: 'b' });
    const error = await pushTree(lying, tree.supply(hash), { clock: space.clock }).catch(
      (reason: unknown) => reason,
    );
    expect((error as CasError).code).toBe('MALFORMED_RESPONSE');
  });

  test('ends with the reason of the signal', async () => {
    const space = new FakeSpace();
    const stop = new AbortController();
    const reason = new Error('stopped');
    space.plant('lease', ...Array.from({ length: 10 }, () => () => undefined), () => {
      stop.abort(reason);
      return undefined;
    });
    expect(await push(space, PLAN, { signal: stop.signal }).catch((error: unknown) => error)).toBe(reason);
  });
});
