/** Sources of content, a folder for the files that answers are sent from, and readers that stall. */
import { readdirSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { seededBytes } from '../../../../test/support/canonical-node.ts';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import type { ContentSource } from '../../core/content-caller.ts';
import type { ObjectFile } from '../../core/object-file.ts';
import { CONTENT_PIECE_BYTES } from '../../core/ports.ts';
import { diskFiles } from '../../engine/disk/files.ts';
import { type SendWatch, SentFiles } from '../sent-files.ts';

export const MIB = 1024 * 1024;
/** where the content begins in the canonical bytes */
export const OFFSET = 26;
export const NO_FOLDER = '/nowhere';

export const watch = (signal = new AbortController().signal): SendWatch => ({
  space: { appId: 'app', spaceId: 'space' },
  signal,
  onProgress: () => undefined,
});

interface MadeSource {
  readonly source: ContentSource;
  /** the pieces that were asked for */
  readonly reads: number[];
  readonly content: Uint8Array;
}

let sources = 0;

/** Canonical bytes with a header, of a generation of their own. */
export function makeSource(bytes: number): MadeSource {
  sources += 1;
  const canonical = new Uint8Array(Buffer.alloc(OFFSET + bytes, seededBytes(99_991, sources)));
  const reads: number[] = [];
  const source: ContentSource = {
    generation: `generation ${sources}`,
    offset: OFFSET,
    size: bytes,
    openFile: async () => undefined,
    getVersion: async () => 'as it was stored',
    async read(start, end) {
      if (end - start > CONTENT_PIECE_BYTES) throw new Error(`${end - start} bytes were asked for at once`);
      reads.push(start);
      await Bun.sleep(0);
      return canonical.slice(start, end);
    },
  };
  return { source, reads, content: canonical.subarray(OFFSET) };
}

interface MadeObject extends Omit<MadeSource, 'source'> {
  readonly source: Omit<ContentSource, 'openFile'> & { readonly openFile: () => Promise<ObjectFile> };
  readonly path: string;
}

export class SentWorld {
  readonly folder = makeTempFolder('copies');
  readonly copyFolder = join(this.folder.path, 'copies');
  readonly cleanups: (() => unknown)[] = [];
  #files: SentFiles | undefined;

  get files(): SentFiles {
    if (this.#files === undefined) throw new Error('nothing was opened');
    return this.#files;
  }

  async open(bytesMax?: number, path = this.copyFolder, memoryFolder = NO_FOLDER): Promise<void> {
    const bounds = bytesMax && { bytesMax, objectBytesMax: bytesMax };
    const files = await SentFiles.open(path, { ...bounds, memoryFolder });
    this.#files = files;
    this.cleanups.push(() => files.close());
  }

  /** The same as `makeSource`, in a file of its own, which is sent as it lies. */
  async makeObject(bytes: number): Promise<MadeObject> {
    const made = makeSource(bytes);
    const path = join(this.folder.path, `object ${sources}`);
    await Bun.write(path, Buffer.concat([new Uint8Array(OFFSET), made.content]));
    const openFile = async (): Promise<ObjectFile> => {
      const file = await diskFiles.openToRead(path);
      const version = file.versionNow();
      return {
        path: file.path,
        version,
        isUnchanged: () => file.versionNow() === version,
        read: (start, end, aids = {}) => made.source.read(start, end, aids),
        close: () => file.closeNow(),
      };
    };
    return { ...made, path, source: { ...made.source, openFile } };
  }

  /** A server as ours, and connections that ask and do not read. */
  async stall(source: ContentSource, count: number): Promise<Socket[]> {
    const { files } = this;
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        return new Response(await files.take(source, 0, source.size, watch(request.signal)));
      },
    });
    this.cleanups.push(() => server.stop(true));
    return Array.from({ length: count }, () => {
      const socket = connect(server.port as number, '127.0.0.1', () => {
        socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      });
      socket.pause();
      this.cleanups.push(() => socket.destroy());
      return socket;
    });
  }

  async close(): Promise<void> {
    for (const cleanup of this.cleanups.splice(0).reverse()) await cleanup();
    this.folder.remove();
  }
}

/** Descriptors of this process that lead into `path`, one for each opening. */
export function openingsIn(path: string): number {
  let count = 0;
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${name}`).startsWith(path)) count += 1;
    } catch {
      // Closed since it was listed.
    }
  }
  return count;
}
