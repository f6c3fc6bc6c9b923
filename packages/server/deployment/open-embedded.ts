/**
 * Composition of the embedded engine: everything is in one data folder, which the caller holds (data-folder.ts), or all but
 * the bytes, which are in S3.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { makeLocalTurns, NO_TURNS } from '../background/turns.ts';
import type { Clock, ContentStore, MetadataStore } from '../core/ports.ts';
import type { S3Address } from '../engine/address.ts';
import { openEmbeddedRegistryStore } from '../engine/sqlite/registry-store.ts';
import type { Log } from '../log.ts';
import { explainFolderError } from './data-folder.ts';
import { type Engines, Opened } from './engines.ts';
import { openBucket } from './open-bucket.ts';
import { openEmbeddedEngine } from './open-embedded-engine.ts';
import { openEmbeddedRows } from './open-embedded-rows.ts';
import { openSigner } from './signer.ts';

interface EmbeddedOptions {
  readonly dataDir: string;
  /** where the bytes are; undefined: in the folder too */
  readonly bucket: S3Address | undefined;
  readonly uploadTtlMs: number;
  readonly log: Log;
  readonly workers: number;
  /** this process's number among them; 0 does the background work */
  readonly worker: number;
  readonly isAlone: boolean;
  readonly clock: Clock;
  readonly onFatal: (error: Error) => void;
}

/** Rejects with ServeError. */
export async function openEmbedded(options: EmbeddedOptions): Promise<Engines> {
  const { dataDir, worker } = options;
  const opened = new Opened();
  try {
    const signer = await openSigner(dataDir);
    const { metadata, content } = await openStores(options, opened);
    const registryStore = openEmbeddedRegistryStore(dataDir);
    opened.add(() => registryStore.close());
    return {
      metadata,
      content,
      registryStore,
      signer,
      turns: worker === 0 ? makeLocalTurns() : NO_TURNS,
      spoolFolder: join(dataDir, 'spool', String(worker)),
      close: () => opened.close(),
    };
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw explainFolderError(dataDir, error);
  }
}

async function openStores(
  options: EmbeddedOptions,
  opened: Opened,
): Promise<{ readonly metadata: MetadataStore; readonly content: ContentStore }> {
  const { bucket: address, uploadTtlMs, log } = options;
  if (address === undefined) {
    const engine = await openEmbeddedEngine(options);
    opened.add(() => engine.close());
    return engine;
  }
  const rows = await openEmbeddedRows(options);
  opened.add(() => rows.metadata.close());
  const storeId = await rows.findOrCreateStoreId(randomUUID);
  const { isMarked } = rows;
  const readIdentity = async () => ({ storeId, isMarked, noteMarked: () => rows.noteMarked() });
  const content = await openBucket({ address, uploadTtlMs, log, readIdentity });
  opened.add(() => content.close());
  return { metadata: rows.metadata, content };
}
