/** Bundles between real servers, and between Holdfast and the CAR library of IPLD. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CarReader, CarWriter } from '@ipld/car';
import { CID } from 'multiformats/cid';
import * as raw from 'multiformats/codecs/raw';
import { sha256 } from 'multiformats/hashes/sha2';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { type CommandResult, resultOf } from './support/command-result.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { readPlace } from './support/read-place.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const folder = makeTempFolder('bundles');
let running: RunningServer;

beforeAll(async () => {
  running = await startFreshServer('bundles');
  await storeSample('source');
});
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function environment(spaceId: string): Record<string, string> {
  return {
    HOLDFAST_URL: running.server.url,
    HOLDFAST_APP: APP,
    HOLDFAST_SPACE: spaceId,
    HOLDFAST_TOKEN: running.issuer.token(spaceId),
  };
}

function run(spaceId: string, ...args: string[]): Promise<CommandResult> {
  return runHoldfast(['bundle', ...args, '--quiet'], { cwd: folder.path, environment: environment(spaceId) });
}

async function runBadly(exitCode: number, spaceId: string, ...args: string[]): Promise<string> {
  const result = await run(spaceId, ...args);
  expect([result.exitCode, result.stdout]).toEqual([exitCode, '']);
  expect(result.stderr).toMatch(/^holdfast: [^\n]+\n$/);
  return result.stderr;
}

/** A root over 300 leaves by two parents that share some, one leaf of 3 MiB. Children first. */
function makeSample(): CanonicalNode[] {
  const leaves = Array.from({ length: 300 }, (_, index) => makeNode(seededBytes(index * 7, index + 1)));
  leaves.push(makeNode(seededBytes(3 * 1024 * 1024, 77)));
  const hashes = leaves.map(({ hash }) => hash);
  const parents = [makeNode('a', { refs: hashes.slice(0, 200) }), makeNode('b', { refs: hashes.slice(100) })];
  return [...leaves, ...parents, makeNode('root', { refs: parents.map(({ hash }) => hash) })];
}

const sample = makeSample();
const root = sample.at(-1)!.hash;

async function storeSample(spaceId: string): Promise<void> {
  const client = running.client(spaceId);
  for (const node of sample) expect((await client.store(node)).json.state).toBe('ready');
}

async function create(spaceId: string, name: string, ...roots: string[]): Promise<string> {
  const path = join(folder.path, name);
  expect(await run(spaceId, 'create', ...roots, '--out', path)).toEqual({
    exitCode: 0,
    stdout: '',
    stderr: '',
  });
  return path;
}

function makeCid(hash: string): CID {
  const digest = new Uint8Array(34);
  digest.set([0x12, 0x20]);
  digest.set(Buffer.from(hash, 'hex'), 2);
  return CID.createV1(raw.code, { code: 0x12, size: 32, digest: digest.subarray(2), bytes: digest });
}

/** A file as the library writes it. */
async function writeCar(name: string, roots: string[], nodes: readonly CanonicalNode[]): Promise<string> {
  const { writer, out } = CarWriter.create(roots.map(makeCid));
  const parts: Uint8Array[] = [];
  const collecting = (async () => {
    for await (const part of out) parts.push(part);
  })();
  for (const { hash, bytes } of nodes) await writer.put({ cid: makeCid(hash), bytes });
  await writer.close();
  await collecting;
  const path = join(folder.path, name);
  writeFileSync(path, Buffer.concat(parts));
  return path;
}

describe('a bundle', () => {
  test('is read and verified by the CAR library', async () => {
    const path = await create('source', 'sample.car', root);
    const car = await CarReader.fromBytes(readFileSync(path));
    expect(car.version).toBe(1);
    expect((await car.getRoots()).map(String)).toEqual([String(makeCid(root))]);
    const hashes: string[] = [];
    for await (const { cid, bytes } of car.blocks()) {
      expect([cid.version, cid.code]).toEqual([1, raw.code]);
      const digest = await sha256.digest(bytes);
      expect(cid.multihash.bytes).toEqual(digest.bytes);
      hashes.push(Buffer.from(digest.digest).toString('hex'));
    }
    expect(hashes.toSorted()).toEqual(sample.map(({ hash }) => hash).toSorted());
    const position = new Map(hashes.map((hash, index) => [hash, index]));
    for (const { hash, refs } of sample) {
      for (const ref of refs) expect(position.get(ref)!).toBeLessThan(position.get(hash)!);
    }
  });

  test('goes to stdout as to a file, and moves a tree to another Space', async () => {
    const path = await create('source', 'moved.car', root);
    const child = Bun.spawn(
      [
        'sh',
        '-c',
        '"$0" bundle create "$1" --quiet | HOLDFAST_SPACE=target HOLDFAST_TOKEN="$TARGET_TOKEN" "$0" bundle import --json --quiet',
        HOLDFAST,
        root,
      ],
      {
        env: {
          PATH: process.env.PATH,
          ...environment('source'),
          TARGET_TOKEN: environment('target').HOLDFAST_TOKEN,
        },
        stdout: 'pipe',
        stderr: 'pipe',
      },
    );
    const { exitCode, stdout, stderr } = await resultOf(child);
    expect([exitCode, stderr]).toEqual([0, '']);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({
      nodes: sample.length,
      uploadedNodes: sample.length,
      bytes: readFileSync(path).length,
    });
    expect(result.roots).toEqual([
      { hash: root, cid: String(makeCid(root)), leaseExpiresAt: expect.any(Number) },
    ]);
    expect(await running.client('target').usage()).toMatchObject({
      nodeCount: sample.length,
      notReadyNodeCount: 0,
    });
    expect(Buffer.compare(readFileSync(await create('target', 'back.car', root)), readFileSync(path))).toBe(
      0,
    );
    const again = await runHoldfast(['bundle', 'import', path], {
      cwd: folder.path,
      environment: environment('target'),
    });
    expect([again.exitCode, again.stdout]).toEqual([0, `${root}\n`]);
    expect(again.stderr).toContain(`${sample.length} nodes verified, 0 uploaded; leased until 20`);
  });

  test('written by the CAR library is imported, whatever the order and even with blocks twice', async () => {
    const path = await writeCar(
      'foreign.car',
      [root, sample[0]!.hash],
      [...sample.toReversed(), ...sample.slice(0, 3)],
    );
    const result = await run('foreign', 'import', path);
    expect([result.exitCode, result.stdout]).toEqual([0, `${root}\n${sample[0]!.hash}\n`]);
    expect(await running.client('foreign').usage()).toMatchObject({
      nodeCount: sample.length,
      notReadyNodeCount: 0,
    });
  });

  test('that is cut off names the place; the whole one then uploads only the rest', async () => {
    const path = await create('source', 'cut.car', root);
    const whole = readFileSync(path);
    truncateSync(path, whole.length - 10_000);
    expect(await runBadly(1, 'cut', 'import', path)).toMatch(/cut off after \d+ bytes, inside block \d+/);
    const { nodeCount } = await running.client('cut').usage();
    expect(nodeCount).toBeGreaterThan(200);
    writeFileSync(path, whole);
    const { stdout } = await run('cut', 'import', path, '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      nodes: sample.length,
      uploadedNodes: sample.length - nodeCount,
    });
  });

  test('without its root, or a node below it, is refused', async () => {
    const withoutRoot = await writeCar('rootless.car', [root], sample.slice(0, -1));
    expect(await runBadly(1, 'rootless', 'import', withoutRoot)).toContain(`does not hold its root ${root}`);
    const leaf = makeNode('missing leaf');
    const parent = makeNode('its parent', { refs: [leaf.hash] });
    const leafless = await writeCar('leafless.car', [parent.hash], [parent]);
    expect(await runBadly(1, 'leafless', 'import', leafless)).toContain(`lacks node ${leaf.hash}`);
  });

  test('with wrong bytes or blocks of other kinds is refused', async () => {
    const path = await create('source', 'hostile.car', sample[5]!.hash);
    const bytes = readFileSync(path);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(path, bytes);
    expect(await runBadly(1, 'hostile', 'import', path)).toMatch(/block 1 .* hash to .* copy it again/);
    const plain = await sha256.digest(new TextEncoder().encode('not a node'));
    const text = await writeCar(
      'text.car',
      [Buffer.from(plain.digest).toString('hex')],
      [
        {
          ...makeNode(''),
          hash: Buffer.from(plain.digest).toString('hex'),
          bytes: new TextEncoder().encode('not a node'),
        },
      ],
    );
    expect(await runBadly(1, 'hostile', 'import', text)).toContain('is no canonical node');
  });

  test('heals a rotten node with --check, and only then', async () => {
    const path = await create('source', 'heal.car', root);
    await run('healing', 'import', path);
    const { hash } = sample[7]!;
    const spoiler = new ByteSpoiler(running.data);
    spoiler.spoil(readPlace(running.data, hash, 'healing'), 'lost');
    const read = (): Promise<Response> => running.client('healing').content(hash);
    expect((await read()).status).toBe(503);
    await run('healing', 'import', path);
    expect((await read()).status).toBe(503);
    const { stdout } = await run('healing', 'import', path, '--check', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ nodes: sample.length, uploadedNodes: 1 });
    expect((await read()).status).toBe(200);
  });
});

test('an import of a file shows its size, and ends at all of its bytes', async () => {
  const path = await create('source', 'total.car', root);
  const { size } = statSync(path);
  for (const spaceId of ['total', 'total']) {
    const result = await runHoldfast(['bundle', 'import', path, '--json'], {
      cwd: folder.path,
      environment: environment(spaceId),
    });
    const events = result.stderr.trimEnd().split('\n');
    const last = events.map((line) => JSON.parse(line)).findLast(({ type }) => type === 'progress');
    expect(last.totals).toEqual({ bytes: size });
    expect(last.counters).toMatchObject({ files: sample.length, bytes: size });
    expect(JSON.parse(result.stdout).bytes).toBe(size);
  }
});

describe('wrong use', () => {
  test('absent hashes, files and folders', async () => {
    const absent = 'e'.repeat(64);
    expect(await runBadly(1, 'source', 'create', absent, '--out', join(folder.path, 'none'))).toContain(
      `${absent} is not in this Space`,
    );
    expect(await Bun.file(join(folder.path, 'none')).exists()).toBe(false);
    expect(await runBadly(1, 'source', 'import', 'nowhere.car')).toContain('does not exist');
    mkdirSync(join(folder.path, 'folder'));
    expect(await runBadly(1, 'source', 'import', 'folder')).toContain('it is a folder');
    // Opened, and then not read.
    expect(await runBadly(1, 'source', 'import', '/proc/self/mem')).toContain(
      '/proc/self/mem cannot be read',
    );
    expect(await runBadly(2, 'source', 'create', 'x y')).toContain('is neither a hash');
    expect(await runBadly(2, 'source', 'create', root, '--json')).toContain('--out');
    expect(await runBadly(2, 'source', 'import', 'x.car', '--max-node-bytes', '0')).toContain(
      'a size from 1',
    );
  });

  test('no bundle is written to a terminal', async () => {
    const command = `${HOLDFAST} bundle create ${root}`;
    const child = Bun.spawn(['script', '--quiet', '--return', '--command', command, '/dev/null'], {
      env: { PATH: process.env.PATH, ...environment('source') },
      stdin: 'ignore',
      stdout: 'pipe',
    });
    expect(await new Response(child.stdout).text()).toContain('a bundle is not for a terminal');
    expect(await child.exited).toBe(2);
  });
});
