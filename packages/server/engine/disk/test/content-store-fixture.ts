/** A content store in a folder of its own, for the tests of this room. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Generation } from '../../../core/model.ts';
import { digestOf, SPACE } from '../../test/samples.ts';
import { DiskContentStore } from '../content-store.ts';
import { diskFiles, type Files } from '../files.ts';
import { ObjectLayout } from '../object-layout.ts';
import { LocalReceivingRegistry } from '../receiving-registry.ts';

const INLINE_BYTES_MAX = 32 * 1024;
const STORE_ID = 'test-store';
const LIMITS = { nodeBytesMax: 64 * 1024 * 1024 };

export interface ContentWorld {
  readonly store: DiskContentStore;
  readonly layout: ObjectLayout;
  readonly fatal: Error[];
  put(generation: Generation, bytes: Uint8Array): Promise<void>;
  finish(generation: Generation): void;
  /** As after a crash: another store on the same folder. */
  reopen(): DiskContentStore;
  destroy(): Promise<void>;
}

export async function openContentStore(overrides: Partial<Files> = {}): Promise<ContentWorld> {
  const root = await mkdtemp(join(tmpdir(), 'holdfast-content-'));
  const layout = new ObjectLayout(root);
  diskFiles.makeFolders([layout.incoming, ...layout.shards()]);
  await writeFile(layout.marker, STORE_ID);
  const finished = new Set<Generation>();
  const fatal: Error[] = [];
  const open = () =>
    new DiskContentStore({
      root,
      storeId: STORE_ID,
      files: { ...diskFiles, ...overrides },
      inlineBytesMax: INLINE_BYTES_MAX,
      registry: new LocalReceivingRegistry(),
      isFinished: (generation) => finished.has(generation),
      onFatal: (error) => fatal.push(error),
    });
  const store = open();
  return {
    store,
    layout,
    fatal,
    finish: (generation) => finished.add(generation),
    reopen: open,
    async put(generation, bytes) {
      if (store.upload.kind !== 'server') throw new Error('the embedded store receives uploads itself');
      const target = { space: SPACE, generation, hash: digestOf(bytes) };
      const staged = await store.upload.receiver.receive(target, bytes, bytes.length, LIMITS);
      await staged.seal();
      await staged.release();
    },
    async destroy() {
      await store.close();
      await rm(root, { recursive: true });
    },
  };
}
