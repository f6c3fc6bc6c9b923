/**
 * The rules over the real embedded engine, with a clock of the test's own and doors in front of the ports: a test holds one
 * request at its step while others go by. At the end no invariant broke, numbers equal a recount, no object lacks its record.
 */
import { expect } from 'bun:test';
import { createHmac } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ApiError, type Hash, type LeaseResponse, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { type CanonicalNode, makeNode, seededBytes } from '../../../../test/support/canonical-node.ts';
import { ByteSpoiler, nextTurn, objectsFolder } from '../../../../test/support/embedded-files.ts';
import { findLeftovers, recount } from '../../../../test/support/embedded-recount.ts';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { type EmbeddedEngine, openEmbeddedEngine } from '../../deployment/test/embedded-engine-fixture.ts';
import { unzstd } from '../../engine/packed-object.ts';
import { JudgingTurns } from '../../shares/fair-queue.ts';
import type { Awaitable } from '../awaitable.ts';
import { sweep } from '../collect/sweep.ts';
import type { Core, CoreSettings } from '../core.ts';
import { leaseNode } from '../lease/lease-node.ts';
import type { NodeRow, Space } from '../model.ts';
import { PackJudgements } from '../packs/judge-pack.ts';
import { receiveUpload } from '../packs/receive-upload.ts';
import type { Signer } from '../ports.ts';
import type { ContentCaller } from '../read/content-caller.ts';
import { type RotReport, RottenNodes } from '../rotten-nodes.ts';
import { StrayWatch, TOMBSTONE_MS } from '../stray-watch.ts';
import { type Doors, withDoors } from './content-doors.ts';
import { withCopies } from './copied-transactions.ts';
import { DirectStore } from './direct-store.ts';
import { SettableQuotas } from './settable-quotas.ts';

export const SPACE: Space = { appId: 'app', spaceId: 'space' };
export const ORIGIN = 'http://127.0.0.1:1';
export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
/** More than the engine keeps as a row. */
const OBJECT_BYTES = 40_000;
const SWEEPS_MAX = 100;
const ROWS_FILE = 'holdfast.db';

const SETTINGS: CoreSettings = {
  nodeBytesMax: 128 * 1024,
  activeUploadsMax: 8,
  uploadTtlMs: 5 * MINUTE_MS,
  abandonedAfterMs: DAY_MS,
  rootRefHistoryMs: DAY_MS,
  keepReplacedMs: 0,
};

/** Nodes here are small: none is copied. */
export const CALLER: ContentCaller = {
  wantsBytes: true,
  copy: () => Promise.reject(new Error('no content here is as large as that')),
};

export type AwaitingUpload = Extract<LeaseResponse, { upload: unknown }>;

/** A small node: its bytes are a row. */
export function smallNode(seed: number, refs: readonly Hash[] = []): CanonicalNode {
  return makeNode(`node ${seed}`, { contentType: 'text/plain', refs });
}

/** A node whose bytes are an object. */
export function objectNode(seed: number, refs: readonly Hash[] = []): CanonicalNode {
  return makeNode(seededBytes(OBJECT_BYTES, seed), { refs });
}

/** Holds whoever passes until it is opened; `reached` resolves when the first stands before it. */
export class Gate {
  readonly reached: Promise<void>;
  readonly #opened: Promise<void>;
  #reach!: () => void;
  #open!: () => void;

  constructor() {
    this.reached = new Promise((resolve) => {
      this.#reach = resolve;
    });
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  pass(): Promise<void> {
    this.#reach();
    return this.#opened;
  }

  open(): void {
    this.#open();
  }
}

/** A body that sends its first half at once and the rest when told. */
export class SlowBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #bytes: Uint8Array;
  #controller!: ReadableStreamDefaultController<Uint8Array>;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.stream = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
        controller.enqueue(bytes.slice(0, bytes.length / 2));
      },
    });
  }

  finish(): void {
    this.#controller.enqueue(this.#bytes.slice(this.#bytes.length / 2));
    this.#controller.close();
  }

  breakOff(): void {
    this.#controller.error(new Error('planted: the connection broke'));
  }
}

interface WorldOptions {
  /** processes that may open the data together */
  readonly workers?: number;
  /** clients write to the content store themselves */
  readonly isDirect?: boolean;
}

export class CoreWorld {
  now = 1_700_000_000_000;
  readonly doors: Doors = {};
  readonly rotReports: RotReport[] = [];
  readonly quotas = new SettableQuotas();
  readonly spoiler: ByteSpoiler;
  readonly #folder = makeTempFolder('core', { fast: true });
  readonly dataDir: string;
  readonly #settings: CoreSettings;
  readonly #workers: number;
  readonly #direct: DirectStore | undefined;
  readonly #fatal: Error[] = [];
  #engine!: EmbeddedEngine;
  readonly #others: EmbeddedEngine[] = [];
  #core!: Core;
  #randomState = 1;

  private constructor(settings: Partial<CoreSettings>, { workers = 1, isDirect = false }: WorldOptions) {
    this.#settings = { ...SETTINGS, ...settings };
    this.#workers = workers;
    if (isDirect) this.#direct = new DirectStore(() => this.now, this.#settings.uploadTtlMs);
    this.dataDir = join(this.#folder.path, 'data');
    mkdirSync(this.dataDir);
    this.spoiler = new ByteSpoiler(this.dataDir);
  }

  static async open(settings: Partial<CoreSettings> = {}, options: WorldOptions = {}): Promise<CoreWorld> {
    const world = new CoreWorld(settings, options);
    await world.restart();
    return world;
  }

  get core(): Core {
    return this.#core;
  }

  get direct(): DirectStore {
    if (this.#direct === undefined) throw new Error('this world receives uploads itself');
    return this.#direct;
  }

  async restart(): Promise<void> {
    await this.#engine?.close();
    this.#engine = await this.#openEngine(true);
    this.#core = this.#coreOf(this.#engine, this.doors);
  }

  /** The rows as they are now. Starts again. */
  async copyRows(): Promise<Uint8Array> {
    await this.#engine.close();
    const rows = readFileSync(join(this.dataDir, ROWS_FILE));
    await this.restart();
    return rows;
  }

  /** Starts again with rows of an earlier time, and the bytes as they are. */
  async restoreRows(rows: Uint8Array): Promise<void> {
    await this.#engine.close();
    for (const suffix of ['-wal', '-shm'])
      rmSync(join(this.dataDir, `${ROWS_FILE}${suffix}`), { force: true });
    writeFileSync(join(this.dataDir, ROWS_FILE), rows);
    await this.restart();
  }

  /** Holds every deletion of the content store before it begins, at the gate it gives. */
  holdDeletes(): Gate {
    const gate = new Gate();
    this.doors.delete = async (step) => {
      await gate.pass();
      await step();
    };
    return gate;
  }

  /** Another process on the same data, without doors. */
  async openBeside(): Promise<Core> {
    const engine = await this.#openEngine(false);
    this.#others.push(engine);
    return this.#coreOf(engine, {});
  }

  #openEngine(isAlone: boolean): Promise<EmbeddedEngine> {
    const clock = { now: () => this.now };
    const onFatal = (error: Error) => this.#fatal.push(error);
    return openEmbeddedEngine({ dataDir: this.dataDir, workers: this.#workers, isAlone, clock, onFatal });
  }

  #coreOf(engine: EmbeddedEngine, doors: Doors): Core {
    return {
      metadata: withCopies(engine.metadata),
      content: withDoors(this.#direct ?? engine.content, doors),
      random: { bytes: (count) => this.#randomBytes(count) },
      ...{ signer, quotas: this.quotas },
      rottenNodes: new RottenNodes((report) => this.rotReports.push(report)),
      strays: new StrayWatch(),
      packs: new PackJudgements(unzstd, new JudgingTurns()),
      settings: this.#settings,
    };
  }

  /** In order, behind two bytes that the generation of a pack leaves out, and no two differ in one bit alone. */
  #randomBytes(count: number): Uint8Array {
    this.#randomState += 1;
    const bytes = Buffer.from(seededBytes(count, this.#randomState));
    bytes.fill(0, 0, 2).writeUInt32BE(this.#randomState, 2);
    return bytes;
  }

  lease(node: CanonicalNode, durationMs = MINUTE_MS, space = SPACE): Promise<LeaseResponse> {
    return leaseNode(this.#core, space, node.hash, durationMs, () => ORIGIN);
  }

  /** A lease that is expected to ask for bytes. */
  async begin(node: CanonicalNode, space = SPACE): Promise<AwaitingUpload> {
    const answer = await this.lease(node, MINUTE_MS, space);
    if ('upload' in answer) return answer;
    throw new Error(`expected an upload instruction, got ${answer.state}`);
  }

  put({ upload }: AwaitingUpload, body: Uint8Array | SlowBody, declaredLength?: number): Promise<void> {
    return receiveUpload(this.#core, {
      token: upload.url.slice(`${ORIGIN}/uploads/`.length),
      ...{ contentType: NODE_MEDIA_TYPE, ifNoneMatch: '*', declaredLength },
      body: body instanceof SlowBody ? body.stream : new Response(body.slice()).body,
    });
  }

  /** Lease, PUT to whoever receives here, lease: the last answer. */
  async upload(node: CanonicalNode, bytes = node.bytes, space = SPACE): Promise<LeaseResponse> {
    const begun = await this.begin(node, space);
    if (this.#direct === undefined) await this.put(begun, bytes);
    else expect(this.#direct.put(begun.upload.url, bytes)).toBe(200);
    return this.lease(node, MINUTE_MS, space);
  }

  /** Uploads nodes that must become ready, children first. */
  async publish(...nodes: readonly CanonicalNode[]): Promise<void> {
    for (const node of nodes) expect((await this.upload(node)).state).toBe('ready');
  }

  async row(node: CanonicalNode): Promise<NodeRow | undefined> {
    return this.#core.metadata.findNode(SPACE, node.hash);
  }

  async looseEdges(node: CanonicalNode): Promise<number> {
    return (await this.#core.metadata.transact(SPACE, (tx) => tx.findLooseEdges([node.hash])))[0] ?? 0;
  }

  async spoil(node: CanonicalNode, how: 'flipped' | 'lost', offset = -1): Promise<void> {
    const row = await this.row(node);
    if (row === undefined) throw new Error('only a node with a row has bytes to spoil');
    await nextTurn();
    this.spoiler.spoil({ ...row, isInline: row.storage === 'inline' }, how, offset);
  }

  async mend(node: CanonicalNode): Promise<void> {
    const row = await this.row(node);
    if (row === undefined) throw new Error('only a node with a row has bytes to mend');
    await nextTurn();
    this.spoiler.restore({ ...row, isInline: row.storage === 'inline' });
  }

  /** The names of all stored objects, whoever keeps them. */
  objects(): readonly string[] {
    return this.#direct?.generations ?? this.objectFiles();
  }

  /** Renews the leases of rows for so long that no collection takes them. */
  keep(nodes: readonly CanonicalNode[]): Promise<void> {
    return this.#core.metadata.transact(SPACE, async (tx) => {
      for (const { hash } of nodes) {
        const row = await tx.findNode(hash);
        if (row === undefined) throw new Error('only a node with a row can be kept');
        await tx.update('node', row, { ...row, leaseExpiresAt: this.now + 100 * DAY_MS });
      }
    });
  }

  objectFiles(): readonly string[] {
    return readdirSync(objectsFolder(this.dataDir), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.kept'))
      .map((entry) => entry.name);
  }

  async sweepAll(): Promise<void> {
    for (let steps = 0; (await sweep(this.#core)).moreToDo; ) expect(++steps).toBeLessThan(SWEEPS_MAX);
  }

  /** Everything that must hold whatever the test did, then the end of this world. */
  async close(): Promise<void> {
    try {
      for (const name of Object.keys(this.doors)) delete this.doors[name as keyof Doors];
      // Past every URL and hold, and past the time that the sweep of a store leaves for late PUTs.
      for (const laterMs of this.#direct === undefined ? [0, 0] : [3 * DAY_MS, 0, TOMBSTONE_MS]) {
        this.now += laterMs;
        await this.sweepAll();
      }
      for (const engine of [...this.#others, this.#engine]) await engine.close();
      expect(this.#fatal).toEqual([]);
      expect(recount(this.dataDir).problems).toEqual([]);
      const { orphans, missing, incoming } = findLeftovers(this.dataDir);
      expect(orphans.filter((name) => !name.endsWith('.kept'))).toEqual([]);
      const elsewhere = this.#direct?.generations ?? [];
      expect({ missing: [...missing].sort(), incoming }).toEqual({ missing: [...elsewhere], incoming: [] });
    } finally {
      this.#folder.remove();
    }
  }
}

/** The answer of a request that must fail. */
export async function failureOf(request: Awaitable<unknown>): Promise<ApiError> {
  try {
    await request;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('expected the request to fail');
}

const sign = (purpose: string, message: string): Buffer =>
  createHmac('sha256', 'a key of this test').update(`${purpose}:${message}`).digest();

const signer: Signer = {
  sign,
  verify: (purpose, message, signature) => Buffer.compare(sign(purpose, message), signature) === 0,
};
