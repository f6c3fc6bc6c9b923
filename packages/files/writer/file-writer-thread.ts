/** The start of the thread that makes small files; it does what thread-file-writer.ts tells it. */
import { parentPort, workerData } from 'node:worker_threads';
import { writeSmallFile } from '../pull/small-file.ts';
import { FilePage } from './file-page.ts';
import type { FailedFile, FilledPage, WriterData, WrittenPage } from './writer-messages.ts';

if (parentPort === null) throw new Error('this file is started as a thread');
const port = parentPort;
const pages = (workerData as WriterData).pages.map((memory) => new FilePage(memory));

port.on('message', ({ page, count }: FilledPage) => {
  const failed: FailedFile[] = [];
  let index = 0;
  let isExclusive = true;
  for (const { file, content } of (pages[page] as FilePage).read(count)) {
    try {
      const placed = writeSmallFile(file, content);
      if (placed === 'appeared') failed.push({ index, placed });
      else isExclusive &&= placed === 'exclusive';
    } catch (error) {
      failed.push({ index, ...describe(error) });
    }
    index += 1;
  }
  const written: WrittenPage = { page, isExclusive, failed };
  port.postMessage(written);
});

/** What crosses to another thread of an error: copied whole, it would lose its code. */
function describe(error: unknown): { message: string; code: string | undefined } {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  return { message, code };
}
