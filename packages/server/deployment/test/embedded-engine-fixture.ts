/** The whole embedded engine in a folder of its own, for the tests of this room. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Hash, UPLOAD_TTL_MS_DEFAULT } from '@holdfast/protocol';
import type { Clock, ContentStore, MetadataStore } from '../../core/ports.ts';
import type { StagedUpload, UploadReceiver } from '../../core/upload-ports.ts';
import { diskFiles, type Files } from '../../engine/disk/files.ts';
import { ManualClock, openUpload, readyNode, SPACE } from '../../engine/test/samples.ts';
import { openLog } from '../../log.ts';
import { openDeployment } from '../open.ts';

const LIMITS = { nodeBytesMax: 64 * 1024 * 1024 };

export interface EmbeddedEngine {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  close(): Promise<void>;
}

interface EmbeddedEngineOptions {
  readonly dataDir: string;
  readonly workers: number;
  /** true when left out and there is but one worker */
  readonly isAlone?: boolean;
  readonly clock: Clock;
  readonly onFatal: (error: Error) => void;
  readonly files?: Files;
}

/** The stores of a data folder, as a process of a server opens them. */
export async function openEmbeddedEngine(options: EmbeddedEngineOptions): Promise<EmbeddedEngine> {
  const { dataDir, workers, isAlone = workers === 1 } = options;
  const folder = { kind: 'folder', dataDir } as const;
  const { rows, bytes, close } = await openDeployment(
    { rows: folder, bytes: folder },
    {
      kind: 'serve',
      ...options,
      isAlone,
      worker: 0,
      uploadTtlMs: UPLOAD_TTL_MS_DEFAULT,
      log: openLog('silent'),
    },
  );
  return { metadata: rows, content: bytes, close };
}

export interface TemporaryEngine {
  readonly dataDir: string;
  readonly databasePath: string;
  readonly clock: ManualClock;
  readonly fatal: Error[];
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  /** Closes it, as a clean end of the process would, and opens it again. */
  reopen(): Promise<void>;
  /** Opens the folder beside the running engine, as after a crash of it. */
  openAfterCrash(): Promise<EmbeddedEngine>;
  destroy(): Promise<void>;
}

export async function openTemporaryEngine(overrides: Partial<Files> = {}): Promise<TemporaryEngine> {
  const dataDir = await mkdtemp(join(tmpdir(), 'holdfast-engine-'));
  const clock = new ManualClock();
  const fatal: Error[] = [];
  const open = (files: Files) =>
    openEmbeddedEngine({ dataDir, workers: 1, clock, onFatal: (error) => fatal.push(error), files });
  let engine = await open({ ...diskFiles, ...overrides });
  return {
    dataDir,
    databasePath: join(dataDir, 'holdfast.db'),
    clock,
    fatal,
    get metadata() {
      return engine.metadata;
    },
    get content() {
      return engine.content;
    },
    async reopen() {
      await engine.close();
      engine = await open({ ...diskFiles, ...overrides });
    },
    openAfterCrash: () => open(diskFiles),
    async destroy() {
      await engine.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

export function receiverOf(content: ContentStore): UploadReceiver {
  if (content.upload.kind !== 'server') throw new Error('the embedded store receives uploads itself');
  return content.upload.receiver;
}

/** Opens a generation and receives its bytes: everything of a PUT before its object is sealed. */
export async function stage(
  metadata: MetadataStore,
  content: ContentStore,
  hash: Hash,
  node: Uint8Array,
): Promise<{ generation: string; staged: StagedUpload; finish(): Promise<void> }> {
  const upload = openUpload(hash);
  const { generation } = upload;
  await metadata.transact(SPACE, (tx) => tx.insert('upload', upload));
  const staged = await receiverOf(content).receive(
    { space: SPACE, generation, hash },
    node,
    node.length,
    LIMITS,
  );
  const { evidence, inlineBytes } = staged;
  return {
    generation,
    staged,
    async finish() {
      if (evidence.verdict !== 'good') throw new Error(`turned down: ${evidence.message}`);
      const { canonicalSize, integrity } = evidence;
      await metadata.transact(SPACE, async (tx) => {
        await tx.insert('content', { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 });
        await tx.update('upload', upload, { ...upload, evidence });
      });
    },
  };
}

/** A ready node whose bytes are a row. */
export async function putInline(
  metadata: MetadataStore,
  content: ContentStore,
  hash: Hash,
  node: Uint8Array,
): Promise<void> {
  const { generation, staged, finish } = await stage(metadata, content, hash, node);
  await finish();
  await staged.release();
  await metadata.transact(SPACE, (tx) =>
    tx.insert('node', readyNode(hash, { generation, canonicalSize: node.length, storage: 'inline' })),
  );
}
