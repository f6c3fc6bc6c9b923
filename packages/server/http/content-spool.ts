/**
 * Where content too large for memory waits for its reader. The runtime frames a streamed body without Content-Length, which
 * the spec wants, and keeps a connection open when a body ends early. So a large range is proven block by block into a
 * private file first, and that file is the body: damage anywhere answers 503, and what is sent was all proven. The file has
 * no name where the system can open one without (Linux), so that nothing can reach it any more and a crash leaves nothing.
 */
import { mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readExactly, type StreamWatch } from './content-stream.ts';

export interface ContentSpool {
  /** Takes exactly `length` bytes. Rejects as `readExactly` does, or with the disk's error; keeps nothing then. */
  hold(stream: ReadableStream<Uint8Array>, length: number, watch: StreamWatch): Promise<Blob>;
}

/** ms a spooled file can still be opened: the runtime does so in the turn in which the answer is handed over. */
const OPENABLE_MS = 2000;
const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';

/** `folder` is this process's own: whatever an earlier life left in it goes. */
export async function openFileSpool(folder: string): Promise<ContentSpool> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
  return { hold: (stream, length, watch) => holdInFile(folder, stream, length, watch) };
}

async function holdInFile(
  folder: string,
  stream: ReadableStream<Uint8Array>,
  length: number,
  watch: StreamWatch,
): Promise<Blob> {
  const path = join(folder, crypto.randomUUID());
  const file = await open(path, 'wx+', 0o600);
  const forget = async (): Promise<void> => {
    await file.close();
    if (!CAN_OPEN_DESCRIPTORS) await rm(path, { force: true });
  };
  try {
    if (CAN_OPEN_DESCRIPTORS) await rm(path);
    await readExactly(stream, length, watch, (piece) => file.writeFile(piece));
  } catch (error) {
    await forget();
    throw error;
  }
  setTimeout(() => void forget().catch(() => undefined), OPENABLE_MS).unref();
  return Bun.file(CAN_OPEN_DESCRIPTORS ? `/proc/self/fd/${file.fd}` : path);
}
