import { expect, test } from 'bun:test';
import type { Core } from '../core/core.ts';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import { RequestTiming, withTiming } from './request-timing.ts';

const space = { appId: 'app', spaceId: 'space' };

/** `port` has verbs on a prototype with private fields, as the engines have. */
class Rows {
  readonly inlineBytesMax = 7;
  readonly given: unknown[] = [];
  readonly #answer = 'what came of it';

  async transact(...parameters: unknown[]): Promise<string> {
    this.given.push(parameters);
    return this.#answer;
  }

  findNode(): string {
    return this.#answer;
  }
}

function timedCore(metadata: object, content: object = {}) {
  const timing = new RequestTiming();
  const core = withTiming({ metadata, content } as Core, timing);
  return { metadata: core.metadata as MetadataStore, content: core.content as ContentStore, timing };
}

test('passes all arguments of a verb on, and returns its result', async () => {
  const rows = new Rows();
  const { metadata, timing } = timedCore(rows);
  const body = { name: 'a', body: () => 'b' } as never;
  const reads = { domain: 'photos', requestId: 'r', hashes: ['00'] };
  const given = [space, body, undefined, reads] as const;
  expect(await metadata.transact(...given)).toBe('what came of it' as never);
  expect(await metadata.transact(space, body)).toBe('what came of it' as never);
  expect(rows.given).toEqual([given, [space, body]]);
  expect(metadata.findNode(space, '00')).toBe('what came of it' as never);
  expect(metadata.inlineBytesMax).toBe(7);
  expect(timing.render()).toMatch(/cas_meta_transact;dur=[\d.]+;desc="2 calls", cas_meta_find_node;dur=/);
});

test('has a verb exactly where the port has it', async () => {
  expect(timedCore(new Rows()).metadata.renewReadyLease).toBeUndefined();
  const withVerb = timedCore({ renewReadyLease: async () => undefined });
  await withVerb.metadata.renewReadyLease?.(space, '00', 1);
  expect(withVerb.timing.render()).toContain('cas_meta_renew_ready_lease;dur=');
  const signing = timedCore({}, { upload: { kind: 'direct', signUpload: async () => 'signed' } });
  const { upload } = signing.content;
  expect(upload.kind).toBe('direct');
  if (upload.kind === 'direct')
    await upload.signUpload(space, 'g', { issuedAt: 0, expiresAt: 1 }, 'text/plain');
  expect(signing.timing.render()).toContain('cas_content_sign_upload;dur=');
});

test('times an upload until it is sealed, and leaves its data alone', async () => {
  const inlineBytes = new Uint8Array(3);
  const staged = {
    inlineBytes,
    evidence: { verdict: 'good' },
    seal: async () => true,
    release: async () => undefined,
  };
  const { content, timing } = timedCore(
    {},
    { upload: { kind: 'server', receiver: { receive: async () => staged } } },
  );
  if (content.upload.kind !== 'server') throw new Error('this store receives uploads itself');
  const received = await content.upload.receiver.receive(
    { space, generation: 'g', hash: '00' },
    inlineBytes,
    3,
    { nodeBytesMax: 9 },
  );
  expect(received.inlineBytes).toBe(inlineBytes);
  expect(received.evidence).toBe(staged.evidence as never);
  expect(await received.seal()).toBe(true);
  expect(timing.render()).toMatch(/cas_content_receive;dur=[\d.]+, cas_content_seal;dur=/);
});

test('a call that fails is counted, and its failure is passed on', async () => {
  const { metadata, timing } = timedCore({ transact: () => Promise.reject(new Error('no')) });
  await expect(metadata.transact(space, {} as never)).rejects.toThrow('no');
  expect(timing.render()).toContain('cas_meta_transact;dur=');
});
