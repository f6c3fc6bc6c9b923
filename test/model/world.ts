/** One run: the real engine and the reference model side by side, one clock, and all that a client would remember. */

import { expect } from 'bun:test';
import { createHmac } from 'node:crypto';
import { ApiError, hashesToRefs, type PackInstruction, type UploadInstruction } from '@holdfast/protocol';
import type { Core } from '../../packages/server/core/core.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { PackJudgements } from '../../packages/server/core/packs/judge-pack.ts';
import type { ContentStore, DeletedObjects, Signer } from '../../packages/server/core/ports.ts';
import { NO_QUOTAS } from '../../packages/server/core/quotas.ts';
import { getUsage } from '../../packages/server/core/read/get-usage.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { RottenNodes } from '../../packages/server/core/rotten-nodes.ts';
import { StrayWatch } from '../../packages/server/core/stray-watch.ts';
import { unzstd } from '../../packages/server/engine/packed-object.ts';
import { JudgingTurns } from '../../packages/server/shares/fair-queue.ts';
import type { EngineUnderTest } from './engine-under-test.ts';
import { POOL, type PoolNode } from './node-pool.ts';
import type { ModelPack } from './reference-packs.ts';
import type { Changes } from './reference-root-refs.ts';
import { MODEL_SETTINGS } from './reference-rules.ts';
import { ReferenceSpace } from './reference-space.ts';

const STARTS_AT = 1_700_000_000_000;
export const ORIGIN = 'http://127.0.0.1:1';
export const DOMAINS = ['alpha', 'beta:two'] as const;
const SPACES: readonly Space[] = [
  { appId: 'app', spaceId: 'one' },
  { appId: 'app', spaceId: 'One' },
];

/** An upload URL some lease handed out, good or long stale. */
export interface KnownUrl {
  readonly space: number;
  readonly node: PoolNode;
  readonly generation: number;
  readonly instruction: UploadInstruction;
}

export interface KnownPack {
  readonly space: number;
  readonly id: string;
  readonly model: ModelPack;
  readonly instruction: PackInstruction;
}

export interface KnownCursor {
  readonly space: number;
  readonly domain: number;
  readonly cursor: string;
  readonly revision: number;
  readonly after: string;
  readonly walkStartedAt: number;
}

export interface KnownRequest {
  readonly space: number;
  readonly domain: number;
  readonly requestId: string;
  readonly changes: Changes;
}

/** A PUT whose headers were accepted and whose body is still under way. */
export interface OpenPut {
  readonly id: number;
  readonly url: KnownUrl;
  readonly body: Uint8Array;
  /** sends the rest and ends, or breaks off; resolves with what the server answered */
  end(how: 'finish' | 'abort'): Promise<Answer<void>>;
}

type DeleteArguments = Parameters<ContentStore['delete']>;

export type Answer<T> =
  | { readonly ok: T }
  | { readonly error: string; readonly status: number; readonly message: string };

export class World {
  /** the nodes this run plays with */
  readonly focus: readonly PoolNode[];
  now: number;
  readonly models: readonly ReferenceSpace[];
  readonly urls: KnownUrl[] = [];
  readonly packs: KnownPack[] = [];
  readonly cursors: KnownCursor[] = [];
  readonly requests: KnownRequest[] = [];
  readonly openPuts: OpenPut[] = [];
  /** content deletes the store still carries out before it fails; undefined = it never fails */
  deletesLeft: number | undefined;
  readonly #engine: EngineUnderTest;
  readonly #sightings: Map<string, number>;
  /** One for each server; they take turns. */
  #cores: readonly Core[] = [];
  #turn = 0;
  #randomState = 1;
  #ids = 0;

  /** `sightings`: how often each situation was met, over all runs */
  constructor(engine: EngineUnderTest, focus: readonly PoolNode[], sightings: Map<string, number>) {
    this.focus = focus;
    this.now = engine.direct?.startsAt() ?? STARTS_AT;
    this.#engine = engine;
    this.models = SPACES.map(() => new ReferenceSpace(engine.direct !== undefined));
    this.#sightings = sightings;
  }

  see(situation: string): void {
    this.#sightings.set(situation, (this.#sightings.get(situation) ?? 0) + 1);
  }

  get core(): Core {
    if (this.#cores.length === 0) throw new Error('the engine is not open');
    this.#turn += 1;
    return at(this.#cores, this.#turn);
  }

  get engine(): EngineUnderTest {
    return this.#engine;
  }

  async open(): Promise<void> {
    const clock = { now: () => this.now };
    const { metadata, content, others = [] } = await this.#engine.open({ clock });
    const guarded = new Proxy(content, {
      get: (target, name) => {
        if (name === 'delete') return (...args: DeleteArguments) => this.#deleteOrFail(target, args);
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    this.#cores = [metadata, ...others].map((each) => ({
      metadata: each,
      content: guarded,
      random: { bytes: (count) => this.#randomBytes(count) },
      signer: makeSigner(),
      rottenNodes: new RottenNodes(() => undefined),
      strays: new StrayWatch(),
      packs: new PackJudgements(unzstd, new JudgingTurns()),
      quotas: NO_QUOTAS,
      settings: MODEL_SETTINGS,
    }));
  }

  async close(): Promise<void> {
    await this.#engine.close();
    this.#cores = [];
  }

  async #deleteOrFail(content: ContentStore, [space, generations]: DeleteArguments): Promise<DeletedObjects> {
    const left = this.deletesLeft ?? generations.length;
    if (this.deletesLeft !== undefined) this.deletesLeft = Math.max(0, left - generations.length);
    const { deleted, failure } = await content.delete(space, generations.slice(0, left));
    const planted =
      left < generations.length ? new Error('planted: the content store cannot delete') : undefined;
    return { deleted, failure: failure ?? planted };
  }

  /** Reproducible and never repeating; unpredictability is not what this test is about. */
  #randomBytes(count: number): Uint8Array {
    this.#randomState += 1;
    const bytes = new Uint8Array(count);
    for (let index = 0; index < count; index += 1)
      bytes[index] = (this.#randomState >> (8 * (index % 4))) & 0xff;
    return bytes;
  }

  nextId(): number {
    this.#ids += 1;
    return this.#ids;
  }

  space(index: number): Space {
    return at(SPACES, index);
  }

  model(index: number): ReferenceSpace {
    return at(this.models, index);
  }

  /** Runs one operation; an `ApiError` is an answer, anything else fails the test. */
  async ask<T>(run: () => Promise<T>): Promise<Answer<T>> {
    try {
      return { ok: await run() };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      expect(error.message.length).toBeGreaterThan(0);
      return { error: error.code, status: error.status, message: error.message };
    }
  }

  /**
   * For a store that takes PUTs itself, when nothing that ran can come back any more: it holds what rows and open uploads
   * point at, and nothing else.
   */
  async auditStore(): Promise<void> {
    if (this.#engine.direct === undefined) return;
    const owned = new Set<string>();
    for (const [index, { nodes, uploads }] of this.models.entries()) {
      const { metadata } = this.core;
      for (const hash of nodes.keys()) {
        const [row] = await metadata.findNodesWithContent(this.space(index), [hash]);
        if (row !== undefined) owned.add(row.content?.packed?.pack ?? row.node.generation);
      }
      for (const hash of uploads.keys()) {
        const upload = await metadata.findUpload(this.space(index), hash);
        if (upload !== undefined) owned.add(upload.generation);
      }
    }
    for (const { space, id } of this.packs) {
      const pack = await this.core.metadata.packs.findPack(this.space(space), id);
      if (pack !== undefined && pack.state !== 'judged') owned.add(pack.generation);
    }
    expect(await this.#engine.direct.findOrphans(owned)).toEqual([]);
  }

  /** Everything observable, compared: usage of each Space, the row and the metadata answer of each hash. */
  async audit(): Promise<void> {
    expect(this.#engine.findProblems?.() ?? []).toEqual([]);
    for (const index of SPACES.keys()) {
      const space = this.space(index);
      const model = this.model(index);
      expect({ ...(await getUsage(this.core, space)) } as Record<string, number>).toEqual(
        model.usage(this.now),
      );
      await Promise.all(POOL.map((node) => this.#auditNode(space, model, node)));
      const absent = POOL.map(({ hash }) => hash).filter((hash) => !model.nodes.has(hash));
      const edges = await this.core.metadata.transact(space, (tx) => tx.findLooseEdges(absent));
      expect(edges).toEqual(absent.map((hash) => model.childRefCount(hash)));
    }
  }

  async #auditNode(space: Space, model: ReferenceSpace, pool: PoolNode): Promise<void> {
    const { hash } = pool;
    const row = await this.core.metadata.findNode(space, hash);
    const expected = model.nodes.get(hash);
    const answer = await this.ask(async () => readMetadata(this.core, space, hash));
    const isReadable = expected?.state === 'ready' || expected?.state === 'rotten';
    if (expected === undefined) {
      expect(row === undefined ? 'absent' : `${pool.name} is ${row.state}`).toBe('absent');
    } else {
      const { state, leaseStartedAt, leaseExpiresAt } = expected;
      expect({
        name: pool.name,
        state: row?.state,
        leaseStartedAt: row?.leaseStartedAt,
        leaseExpiresAt: row?.leaseExpiresAt,
        childRefCount: row?.childRefCount,
        rootRefCount: row?.rootRefCount,
        refs: row === undefined ? undefined : Buffer.from(row.refs).toString('hex'),
      }).toEqual({
        name: pool.name,
        state,
        leaseStartedAt,
        leaseExpiresAt,
        childRefCount: model.childRefCount(hash),
        rootRefCount: model.rootRefs.aggregate(hash),
        refs: Buffer.from(hashesToRefs(pool.refs)).toString('hex'),
      });
    }
    if (isReadable) expect(answer).toEqual({ ok: describeExpected(model, pool) });
    else expect(answer).toMatchObject({ error: 'NOT_FOUND', status: 404 });
  }
}

function describeExpected(model: ReferenceSpace, pool: PoolNode) {
  const node = model.nodes.get(pool.hash);
  return {
    metadata: {
      hash: pool.hash,
      size: pool.content.length,
      contentType: pool.contentType,
      refs: [...pool.refs],
    },
    state: {
      leaseStartedAt: node?.leaseStartedAt ?? 0,
      leaseExpiresAt: node?.leaseExpiresAt ?? 0,
      childRefCount: model.childRefCount(pool.hash),
      rootRefCount: model.rootRefs.aggregate(pool.hash),
    },
  };
}

/** Kept with the test, as a server keeps its key with the data: what was signed stays good over a restart. */
function makeSigner(): Signer {
  const sign = (purpose: string, message: string): Buffer =>
    createHmac('sha256', 'a key of this test').update(`${purpose}:${message}`).digest();
  return {
    sign,
    verify: (purpose, message, signature) => Buffer.compare(sign(purpose, message), signature) === 0,
  };
}

/** The element at `index`, modulo the length. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}
