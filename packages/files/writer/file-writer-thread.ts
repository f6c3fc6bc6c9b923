/** The start of the thread that makes small files; it does what thread-file-writer.ts tells it. */
import { parentPort, workerData } from 'node:worker_threads';
import { FilePage } from './file-page.ts';
import { writePage } from './write-page.ts';
import { type FilledPage, THREAD_READY, type WriterData, type WrittenPage } from './writer-messages.ts';

if (parentPort === null) throw new Error('this file is started as a thread');
const port = parentPort;
const pages = (workerData as WriterData).pages.map((memory) => new FilePage(memory));

port.on('message', ({ page, count }: FilledPage) => {
  const written: WrittenPage = { page, ...writePage(pages[page] as FilePage, count) };
  port.postMessage(written);
});
port.postMessage(THREAD_READY);
