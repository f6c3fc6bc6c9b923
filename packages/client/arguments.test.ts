/** Wrong arguments, as JavaScript gives them: every call says so itself, and sends nothing. */
import { describe, expect, test } from 'bun:test';
import type { Client } from './client.ts';
import { CasError } from './errors.ts';
import * as sdk from './internal.ts';
import { FakeSpace } from './test/fake-space-fixture.ts';

// biome-ignore lint/suspicious/noExplicitAny: what has no types cannot be checked by them
type Untyped = any;

const HASH = 'ab'.repeat(32);
const NODE = { contentType: 'text/plain', content: 'a' };
const LEASE = { leaseDurationMs: 60_000 };
const UPLOAD = { method: 'PUT', url: 'http://store.test/x', expiresAt: 1, headers: {} };
const WRONG_HASHES = [undefined, null, '', 'abc', HASH.toUpperCase(), `${HASH}0`, 7, {}, [HASH]];
const WRONG_DURATIONS = [Number.NaN, 0, -1, 1.5, '60000', null, Number.POSITIVE_INFINITY];
const WRONG_OPTIONS = [null, 7, 'signal', [], { signal: {} }, { signal: 'stop' }];

/** Drains what is a generator: it begins with its first value. */
async function run(given: unknown): Promise<void> {
  const result = (await given) as Partial<AsyncGenerator> | undefined;
  if (typeof result?.next === 'function') await result.next();
}

async function expectRefusal(call: (client: Untyped) => unknown): Promise<void> {
  const space = new FakeSpace();
  const client: Client = space.client();
  let error: unknown;
  try {
    await run(call(client));
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(CasError);
  expect((error as CasError).code).toBe('INVALID_ARGUMENT');
  expect((error as CasError).message).toMatch(/^\w+.*: /);
  expect(space.calls).toEqual([]);
}

describe('hashes', () => {
  const calls: Record<string, (client: Untyped, hash: unknown) => unknown> = {
    readContent: (client, hash) => client.readContent(hash),
    readMetadata: (client, hash) => client.readMetadata(hash),
    leaseNode: (client, hash) => client.leaseNode(hash, LEASE),
    getNode: (client, hash) => client.getNode(hash),
    getNodes: (client, hash) => client.getNodes([hash]),
    openNode: (client, hash) => client.openNode(hash),
    'bulk.leaseNodes': (client, hash) => client.bulk.leaseNodes([hash], LEASE),
    'bulk.readNodes': (client, hash) => client.bulk.readNodes([hash]),
    'putNode refs': (client, hash) => client.putNode({ ...NODE, refs: [hash] }),
    'putNodes refs': (client, hash) => client.putNodes([{ ...NODE, refs: [hash] }]),
    'hashNode refs': (_, hash) => sdk.hashNode({ ...NODE, refs: [hash] } as Untyped),
    getFile: (client, hash) => sdk.getFile(client, hash as Untyped),
    'openTree readItem': (client, hash) =>
      sdk.openTree(sdk.createNodeSource(client)).readItem(hash as Untyped),
    'openTree readFile': (client, hash) =>
      sdk.openTree(sdk.createNodeSource(client)).readFile(hash as Untyped),
    'openTree readDirectory': (client, hash) =>
      sdk.openTree(sdk.createNodeSource(client)).readDirectory(hash as Untyped),
    'openTree readSymlink': (client, hash) =>
      sdk.openTree(sdk.createNodeSource(client)).readSymlink(hash as Untyped),
    'openTree resolvePath': (client, hash) =>
      sdk.openTree(sdk.createNodeSource(client)).resolvePath(hash as Untyped, []),
    createBundle: (client, hash) => sdk.createBundle(client, [hash] as Untyped),
    formatCid: (_, hash) => sdk.formatCid(hash as Untyped),
  };
  test.each(Object.keys(calls))('%s', async (name) => {
    for (const hash of WRONG_HASHES) await expectRefusal((client) => calls[name]?.(client, hash));
  });
});

describe('lease durations', () => {
  const calls: Record<string, (client: Untyped, leaseDurationMs: unknown) => unknown> = {
    leaseNode: (client, leaseDurationMs) => client.leaseNode(HASH, { leaseDurationMs }),
    putNode: (client, leaseDurationMs) => client.putNode(NODE, { leaseDurationMs }),
    putNodes: (client, leaseDurationMs) => client.putNodes([NODE], { leaseDurationMs }),
    'bulk.leaseNodes': (client, leaseDurationMs) => client.bulk.leaseNodes([HASH], { leaseDurationMs }),
    'bulk.leasePack': (client, leaseDurationMs) => client.bulk.leasePack('id', { leaseDurationMs }),
    putFile: (client, leaseDurationMs) =>
      sdk.putFile(client, new Blob(['a']), { leaseDurationMs } as Untyped),
  };
  test.each(Object.keys(calls))('%s', async (name) => {
    for (const duration of WRONG_DURATIONS) await expectRefusal((client) => calls[name]?.(client, duration));
  });
});

describe('options', () => {
  const calls: Record<string, (client: Untyped, options: unknown) => unknown> = {
    readContent: (client, options) => client.readContent(HASH, options),
    readMetadata: (client, options) => client.readMetadata(HASH, options),
    leaseNode: (client, options) => client.leaseNode(HASH, LEASE, options),
    getUsage: (client, options) => client.getUsage(options),
    runGc: (client, options) => client.runGc({}, options),
    listRootRefs: (client, options) => client.listRootRefs({}, options),
    updateRootRefs: (client, options) =>
      client.updateRootRefs({ requestId: 'a', changes: { [HASH]: 1 } }, options),
    health: (client, options) => client.health(options),
    rootRefs: (client, options) => client.rootRefs(options),
    putNode: (client, options) => client.putNode(NODE, options),
    putNodes: (client, options) => client.putNodes([NODE], options),
    getNode: (client, options) => client.getNode(HASH, options),
    getNodes: (client, options) => client.getNodes([HASH], options),
    openNode: (client, options) => client.openNode(HASH, options),
    uploadNode: (client, options) => client.uploadNode(UPLOAD, new Uint8Array(1), options),
    putFile: (client, options) => sdk.putFile(client, new Blob(['a']), options as Untyped),
  };
  test.each(Object.keys(calls))('%s', async (name) => {
    for (const options of WRONG_OPTIONS) await expectRefusal((client) => calls[name]?.(client, options));
  });
});

describe('other arguments', () => {
  const commit =
    (changes: unknown, requestId: unknown = 'a') =>
    (client: Untyped) =>
      client.updateRootRefs({ requestId, changes });
  const put = (node: unknown) => (client: Untyped) => client.putNode(node);
  const calls: Record<string, (client: Untyped) => unknown> = {
    'no node': put(undefined),
    'a node of text': put('hello'),
    'no content type': put({ content: 'a' }),
    'a content type that is none': put({ contentType: 7, content: 'a' }),
    'no content': put({ contentType: 'text/plain' }),
    'a number as content': put({ ...NODE, content: 7 }),
    'an array of bytes as content': put({ ...NODE, content: [1, 2] }),
    'an ArrayBuffer as content': put({ ...NODE, content: new ArrayBuffer(2) }),
    'refs that are a set': put({ ...NODE, refs: new Set([HASH]) }),
    'refs that are one hash': put({ ...NODE, refs: HASH }),
    '257 refs': put({ ...NODE, refs: Array(257).fill(HASH) }),
    'half of a surrogate pair': put({ ...NODE, content: '\ud800' }),
    'nodes that are no list': (client) => client.putNodes(NODE),
    'hashes that are one hash': (client) => client.getNodes(HASH),
    'no lease': (client) => client.leaseNode(HASH),
    'a range that is text': (client) => client.readContent(HASH, { range: 'bytes=0-1' }),
    'a range of nothing': (client) => client.readContent(HASH, { range: null }),
    'a pass of NaN': (client) => client.runGc({ maxNodes: Number.NaN }),
    'a pass that is a number': (client) => client.runGc(5),
    'a page of 201': (client) => client.listRootRefs({ limit: 201 }),
    'a page of text': (client) => client.listRootRefs({ limit: '10' }),
    'rootRefs of 0': (client) => client.rootRefs({ limit: 0 }),
    'a cursor of null': (client) => client.listRootRefs({ cursor: null }),
    'no commit': (client) => client.updateRootRefs(),
    'no request id': commit({ [HASH]: 1 }, ''),
    'a request id that is a number': commit({ [HASH]: 1 }, 7),
    'no changes': commit(undefined),
    'changes of nothing': commit({}),
    'changes that are a map': commit(new Map([[HASH, 1]])),
    'a change of no hash': commit({ undefined: 1 }),
    'a change of NaN': commit({ [HASH]: Number.NaN }),
    'a change of text': commit({ [HASH]: '1' }),
    'a change that is too large': commit({ [HASH]: 1_000_001 }),
    'an upload of text': (client) => client.uploadNode(UPLOAD, 'text'),
    'no upload': (client) => client.uploadNode(undefined, new Uint8Array(1)),
    'an upload to a file': (client) => client.uploadNode({ ...UPLOAD, url: 'file:///x' }, new Uint8Array(1)),
    'an upload with a user': (client) =>
      client.uploadNode({ ...UPLOAD, url: 'http://u:p@store.test/x' }, new Uint8Array(1)),
    'a pack of no id': (client) => client.bulk.leasePack(undefined, LEASE),
    'putFile of text': (client) => sdk.putFile(client, 'a' as Untyped),
    'putFile without a client': () => sdk.putFile(undefined as Untyped, new Blob(['a'])),
    'putFile with progress that is none': (client) =>
      sdk.putFile(client, new Blob(['a']), { onProgress: 7 } as Untyped),
    'pushTree of nothing': (client) => sdk.pushTree(client, undefined as Untyped),
    'planPush of nothing': (client) => sdk.planPush(client, undefined as Untyped),
    'openTree of nothing': () => sdk.openTree(undefined as Untyped),
    'createNodeSource of nothing': () => sdk.createNodeSource(undefined as Untyped),
    'createPatientSource of nothing': () => sdk.createPatientSource(undefined as Untyped),
    'importBundle of a path': (client) => sdk.importBundle(client, 'a.car' as Untyped),
    'readBundle of nothing': () => sdk.readBundle(undefined as Untyped),
    'buildFile of nothing': () => sdk.buildFile({ emit: () => undefined }, undefined as Untyped),
    'readNames of nothing': () => sdk.readNames(undefined as Untyped),
    'addSnapshot of nothing': (client) => sdk.addSnapshot(client, undefined as Untyped),
    'forgetSnapshots of nothing': (client) => sdk.forgetSnapshots(client, undefined as Untyped),
    'a token source without renew': () => sdk.createTokenSource({} as Untyped),
    'a keeper without a client': () => sdk.startLeaseKeeper({} as Untyped),
    'a keeper of NaN': (client) => sdk.startLeaseKeeper({ client, leaseDurationMs: Number.NaN }),
  };
  test.each(Object.keys(calls))('%s', async (name) => {
    await expectRefusal((client) => calls[name]?.(client));
  });

  const source = { readNode: () => undefined };
  const root = { hash: HASH };
  const functions: Readonly<Record<string, (client: sdk.Client) => readonly unknown[]>> = {
    buildSmallFile: () => [{ emit: () => undefined }, new Uint8Array()],
    buildSymlink: () => [{ emit: () => undefined }, new Uint8Array()],
    createPatientClient: (client) => [client, {}],
    createPatientSource: (client) => [client],
    decideForgetting: () => [[], { name: 'n', all: true }, 0],
    decideRetention: () => [[], { keepLast: 1 }, 0],
    diffTrees: () => [source, root, root],
    encodeCatalog: () => [{ snapshots: [] }],
    findReference: () => [{}, { snapshots: [] }],
    formatName: () => [new Uint8Array()],
    measureTrees: () => [source, []],
    parseCatalog: () => ['a/b', new Uint8Array()],
    pullTree: () => [source, root, () => undefined],
    startProgress: () => [{ onEvent: () => undefined }],
    verifyTree: () => [source, HASH],
    walkTree: () => [source, root],
    watchStream: () => [new ReadableStream(), { waitFor: () => undefined }, {}],
  };
  test.each(Object.keys(functions))('%s of anything else', async (name) => {
    const call = (sdk as Untyped)[name] as (...given: readonly unknown[]) => Untyped;
    for (const wrong of [undefined, null, 7, Symbol('s'), true, []]) {
      for (const at of (functions[name] as Untyped)({}).keys()) {
        await expectRefusal(async (client) => {
          const given = [...(functions[name]?.(client) ?? [])];
          const isRight = Array.isArray(wrong) ? Array.isArray(given[at]) : typeof wrong === typeof given[at];
          given[at] = isRight ? null : wrong;
          const made = await call(...given);
          await made?.next?.();
        });
      }
    }
  });

  const options = { baseUrl: 'http://a.test', appId: 'a', spaceId: 's', token: 't' };
  test.each([
    [undefined],
    [{ ...options, baseUrl: undefined }],
    [{ ...options, appId: 7 }],
    [{ ...options, token: undefined }],
    [{ ...options, token: {} }],
    [{ ...options, fetch: 'fetch' }],
    [{ ...options, retry: { attemptsMax: Number.NaN } }],
    [{ ...options, retry: { attemptsMax: 0 } }],
    [{ ...options, timeouts: { answerMs: 'long' } }],
    [{ ...options, contentBytesMax: '1' }],
  ])('createClient(%p)', async (given) => {
    await expectRefusal(() => sdk.createClient(given as Untyped));
  });

  test('names are refused by errors of names', () => {
    for (const name of [undefined, null, 7, {}]) {
      expect(() => sdk.parseReference(name as Untyped)).toThrow(sdk.CatalogError);
      expect(() => sdk.checkSnapshotName(name as Untyped)).toThrow(sdk.CatalogError);
      expect(() => sdk.checkSnapshotId(name as Untyped)).toThrow(sdk.CatalogError);
    }
  });

  test('no value of an argument stands in a message', async () => {
    const secret = 'eyJhbGciOiJFUzI1NiJ9.secret';
    const client = new FakeSpace().client() as Untyped;
    const error: unknown = await client.getNode(secret).catch((thrown: unknown) => thrown);
    expect((error as CasError).message).not.toContain('secret');
  });
});
