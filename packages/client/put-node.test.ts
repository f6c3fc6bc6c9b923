import { describe, expect, test } from 'bun:test';
import { encodeNode } from '@holdfast/protocol';
import fc from 'fast-check';
import type { CasError } from './errors.ts';
import type { NewNode } from './new-node.ts';
import { FakeSpace, failure, json, rejection, sha256Hex } from './test/fake-space-fixture.ts';

const NODE: NewNode = { contentType: 'text/plain', content: 'hello' };
const BYTES = encodeNode({ contentType: 'text/plain', refs: [], content: new TextEncoder().encode('hello') });
const HASH = sha256Hex(BYTES);
const ROUND = ['lease', 'upload'];

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return ((await rejection(promise)) as CasError).code;
}

/** A lease answer that says the last upload was turned down. */
function rejected(code: string): () => Response {
  return () =>
    json({
      hash: HASH,
      state: 'awaiting_replacement_upload',
      rejection: { code, message: 'planted' },
      upload: { method: 'PUT', url: 'http://store.test/uploads/x/0', expiresAt: 1, headers: {} },
    });
}

describe('putNode', () => {
  test('lease, PUT as told, lease', async () => {
    const space = new FakeSpace();
    const result = await space.client().putNode(NODE, { leaseDurationMs: 90_000 });
    expect(result).toEqual({
      state: 'ready',
      hash: HASH,
      leaseStartedAt: 1,
      leaseExpiresAt: 2,
      uploaded: true,
    });
    expect(space.kinds()).toEqual([...ROUND, 'lease']);
    expect(new TextDecoder().decode(space.calls[0]?.body)).toBe('{"leaseDurationMs":90000}');
    expect(space.nodes.get(HASH)).toEqual(BYTES);
  });

  test('a node that is there is leased and not uploaded', async () => {
    const space = new FakeSpace();
    space.nodes.set(HASH, BYTES);
    expect((await space.client().putNode(NODE)).uploaded).toBe(false);
    expect(space.kinds()).toEqual(['lease']);
  });

  test('text, bytes and blobs of the same content are the same node', async () => {
    for (const content of [
      'hello',
      new TextEncoder().encode('hello'),
      new Blob(['hel', 'lo'], { type: 'a/b' }),
    ]) {
      expect((await new FakeSpace().client().putNode({ ...NODE, content })).hash).toBe(HASH);
    }
  });

  test('bytes that change while the call runs do not change the node', async () => {
    const space = new FakeSpace();
    const content = new TextEncoder().encode('hello');
    const result = space.client().putNode({ ...NODE, content });
    content.fill(0);
    expect((await result).hash).toBe(HASH);
    expect(space.nodes.get(HASH)).toEqual(BYTES);
  });

  test('missing children are an outcome', async () => {
    const space = new FakeSpace();
    const child = 'c'.repeat(64);
    const result = await space.client().putNode({ ...NODE, refs: [child, child] });
    expect(result).toMatchObject({
      state: 'validated_awaiting_children',
      childHashes: [child],
      uploaded: true,
    });
  });

  test('someone was first (412): another lease tells', async () => {
    const space = new FakeSpace();
    space.plant('upload', () => {
      space.receiveFromOther(HASH, BYTES);
      return failure(412, 'CONFLICT');
    });
    expect(await space.client().putNode(NODE)).toMatchObject({ state: 'ready', uploaded: false });
    expect(space.kinds()).toEqual([...ROUND, 'lease']);
  });

  test("someone else's wrong bytes (412, then a rejection) are no reason to give up", async () => {
    const space = new FakeSpace();
    space.plant('upload', () => {
      space.receiveFromOther(HASH, new Uint8Array(9));
      return failure(412, 'CONFLICT');
    });
    expect(await space.client().putNode(NODE)).toMatchObject({ state: 'ready', uploaded: true });
    expect(space.kinds()).toEqual([...ROUND, ...ROUND, 'lease']);
  });

  test("a rejection of someone else's bytes, of whatever kind, is not ours", async () => {
    const space = new FakeSpace();
    space.plant('lease', () => undefined, rejected('INVALID_CANONICAL_NODE'));
    space.plant('upload', () => failure(412, 'CONFLICT'));
    // Judging the other bytes has made a new generation: the next PUT meets it.
    expect((await space.client().putNode(NODE)).state).toBe('ready');
  });

  test('an expired instruction (403): another lease gives another', async () => {
    const space = new FakeSpace();
    space.plant('upload', () => new Response('<Error>expired</Error>', { status: 403 }));
    expect((await space.client().putNode(NODE)).state).toBe('ready');
    expect(space.kinds()).toEqual([...ROUND, ...ROUND, 'lease']);
  });

  test('bytes damaged on the way are sent again, but not for ever', async () => {
    const space = new FakeSpace();
    const damage = () => {
      space.receiveFromOther(
        HASH,
        Uint8Array.from(BYTES, (byte) => byte ^ 1),
      );
      return new Response(null, { status: 200 });
    };
    space.plant('upload', damage, damage);
    expect((await space.client().putNode(NODE)).state).toBe('ready');
    expect(space.kinds()).toEqual([...ROUND, ...ROUND, ...ROUND, 'lease']);

    const worse = new FakeSpace();
    const ruin = () => {
      worse.receiveFromOther(
        HASH,
        Uint8Array.from(BYTES, (byte) => byte ^ 1),
      );
      return new Response(null, { status: 200 });
    };
    worse.plant('upload', ...Array(9).fill(ruin));
    expect(await codeOf(worse.client().putNode(NODE))).toBe('NODE_DIGEST_MISMATCH');
    expect(worse.kinds()).toEqual([...ROUND, ...ROUND, ...ROUND, 'lease']);
  });

  test('a rejection of our own bytes that sending again cannot mend is final', async () => {
    for (const code of ['NODE_TOO_LARGE', 'INVALID_CANONICAL_NODE', 'NODE_CONFLICT']) {
      const space = new FakeSpace();
      space.plant('lease', () => undefined, rejected(code));
      expect(await codeOf(space.client().putNode(NODE))).toBe(code);
      expect(space.kinds()).toEqual([...ROUND, 'lease']);
    }
  });

  test('a rejection that stood there before is not ours', async () => {
    const space = new FakeSpace();
    space.plant('lease', rejected('NODE_TOO_LARGE'));
    expect((await space.client().putNode(NODE)).state).toBe('ready');
  });

  test('a body over the limit: the reason, whether the PUT was answered or cut off', async () => {
    const space = new FakeSpace();
    space.plant('lease', () => undefined, rejected('NODE_TOO_LARGE'));
    space.plant('upload', () => failure(413, 'PAYLOAD_TOO_LARGE'));
    expect(await codeOf(space.client().putNode(NODE))).toBe('NODE_TOO_LARGE');

    const cut = new FakeSpace();
    cut.plant('lease', () => undefined, rejected('NODE_TOO_LARGE'));
    cut.plant('upload', ...Array(4).fill(() => Promise.reject(new TypeError('EPIPE'))));
    expect(await codeOf(cut.client().putNode(NODE))).toBe('NODE_TOO_LARGE');
    expect(cut.kinds()).toEqual(['lease', ...Array(4).fill('upload'), 'lease']);

    const proxy = new FakeSpace();
    proxy.plant('upload', () => failure(413, 'PAYLOAD_TOO_LARGE'));
    expect(await codeOf(proxy.client().putNode(NODE))).toBe('PAYLOAD_TOO_LARGE');
  });

  test('a PUT whose answer was lost was still a PUT', async () => {
    const space = new FakeSpace();
    space.plant('upload', ({ body }) => {
      space.receiveFromOther(HASH, body);
      return Promise.reject(new TypeError('socket hang up'));
    });
    // The second attempt meets its own bytes: 412.
    expect((await space.client().putNode(NODE)).state).toBe('ready');
    expect(space.kinds()).toEqual(['lease', 'upload', 'upload', 'lease']);
  });

  test('a target that refuses or is away: its failure', async () => {
    const refused = new FakeSpace();
    refused.plant('upload', () => new Response('<Error/>', { status: 400 }));
    const error = (await rejection(refused.client().putNode(NODE))) as CasError;
    expect([error.code, error.status, error.requestOperation]).toEqual(['UPLOAD_REFUSED', 400, 'uploadNode']);
    const away = new FakeSpace();
    away.plant('upload', ...Array(4).fill(() => Promise.reject(new TypeError('refused'))));
    expect(await codeOf(away.client().putNode(NODE))).toBe('CONNECTION_FAILED');
  });

  test('a store whose signer has expired (400 ExpiredToken): another lease gives another URL', async () => {
    const space = new FakeSpace();
    const expired =
      '<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>';
    space.plant('upload', () => new Response(expired, { status: 400 }));
    expect((await space.client().putNode(NODE)).state).toBe('ready');
    const other = new FakeSpace();
    other.plant('upload', () => new Response('<Error><Code>InvalidDigest</Code></Error>', { status: 400 }));
    const error = (await rejection(other.client().putNode(NODE))) as CasError;
    expect([error.code, error.storeCode]).toEqual(['UPLOAD_REFUSED', 'InvalidDigest']);
    expect(error.message).toContain('answered 400 InvalidDigest');
  });

  test('rounds are bounded', async () => {
    const space = new FakeSpace();
    space.plant('upload', ...Array(20).fill(() => failure(412, 'CONFLICT')));
    expect(await codeOf(space.client().putNode(NODE))).toBe('UPLOAD_UNSETTLED');
    expect(space.kinds()).toEqual(Array(6).fill(ROUND).flat());
  });

  test('rounds that a store refused tell its status and code, and what to do', async () => {
    const space = new FakeSpace();
    const refuse = (): Response => new Response('<Error><Code>AccessDenied</Code></Error>', { status: 403 });
    space.plant('upload', ...Array(6).fill(refuse));
    const error = (await rejection(space.client().putNode(NODE))) as CasError;
    expect([error.code, error.status, error.storeCode]).toEqual(['UPLOAD_UNSETTLED', 403, 'AccessDenied']);
    expect(error.message).toMatch(
      /settled nothing: the upload target answered 403 AccessDenied: check the rights/,
    );
  });

  test('a full Space (429) is waited for', async () => {
    const space = new FakeSpace();
    space.plant('lease', () => failure(429, 'CAS_UPLOAD_LIMIT', { 'retry-after': '2' }));
    expect((await space.client().putNode(NODE)).state).toBe('ready');
    expect(space.clock.waits).toEqual([2_100]);
  });

  test('giving up during the PUT', async () => {
    const space = new FakeSpace();
    const controller = new AbortController();
    const reason = new Error('enough');
    space.plant('upload', () => {
      controller.abort(reason);
      return new Promise<Response>(() => undefined);
    });
    expect(await rejection(space.client().putNode(NODE, { signal: controller.signal }))).toBe(reason);
  });

  test('what is no node is refused before anything is sent', async () => {
    const space = new FakeSpace();
    for (const node of [
      { ...NODE, contentType: '' },
      { ...NODE, contentType: 'text/plän' },
      { ...NODE, refs: ['nope'] },
      { ...NODE, refs: Array(257).fill(HASH) },
      { ...NODE, content: 'half \ud800' },
    ]) {
      expect(await codeOf(space.client().putNode(node))).toBe('INVALID_ARGUMENT');
    }
    expect(space.calls).toEqual([]);
  });

  test('any faults in any order: the node is there, or a CasError says why', async () => {
    const faults = {
      none: () => undefined,
      away: () => Promise.reject(new TypeError('reset')),
      busy: () => failure(503, 'SERVICE_UNAVAILABLE'),
      expired: () => failure(403, 'FORBIDDEN'),
      finished: () => failure(412, 'CONFLICT'),
      refused: () => new Response(null, { status: 400 }),
      silent: () => new Response(null, { status: 200 }),
    };
    const names = fc.array(fc.constantFrom(...(Object.keys(faults) as (keyof typeof faults)[])), {
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(names, names, async (onUpload, onLease) => {
        const space = new FakeSpace();
        space.plant('upload', ...onUpload.map((name) => faults[name]));
        space.plant('lease', ...onLease.map((name) => faults[name]));
        const outcome = await space
          .client()
          .putNode(NODE)
          .catch((error: unknown) => error);
        if (outcome instanceof Error) expect(outcome.name).toBe('CasError');
        else expect(space.nodes.get(HASH)).toEqual(BYTES);
        expect(space.clock.runningLimits).toBe(0);
      }),
    );
  });
});
