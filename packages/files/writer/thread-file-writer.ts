/**
 * Makes the small files of a pull in a thread of its own, because the system takes as long to make a file as the pull takes to
 * receive and prove it. Files that come in one turn of the event loop cross together. If the thread has no room for a file, the pull
 * writes it, so neither waits for the other.
 */
import { Worker } from 'node:worker_threads';
import type { UnprovenFile } from '@holdfast/client/internal';
import { shareOfDescriptors } from '../open-folders.ts';
import type { FileWriter } from '../pull/file-writer.ts';
import type { Placed, SmallFile } from '../pull/small-file.ts';
import { FilePage, PAGE_BYTES } from './file-page.ts';
import { writePage } from './write-page.ts';
import {
  type FailedFile,
  type FilledPage,
  THREAD_READY,
  type WriterData,
  type WrittenPage,
} from './writer-messages.ts';

/** The thread's first file. It lies beside this one, with the same name in the sources and in a build. */
const ENTRY = new URL(
  import.meta.url.endsWith('.ts') ? './file-writer-thread.ts' : './file-writer-thread.js',
  import.meta.url,
);
/**
 * Folders with files that wait: each stays open until its files are written. Folders of one file each could be thousands, and many
 * systems let a process have 1,024 descriptors.
 */
export const WAITING_FOLDERS_MAX = 256;

interface Waiting {
  readonly settle: (placed: Placed | 'unproven') => void;
  readonly fail: (error: unknown) => void;
}

interface Page {
  readonly number: number;
  readonly files: FilePage;
  readonly waiting: Waiting[];
  /** descriptors of the folders of its files */
  readonly folders: Set<number>;
  /** called when its files are written or have failed */
  readonly later: (() => void)[];
}

export interface FileWriterOptions {
  /** Files written on the main thread before a worker is started; for fewer, a worker costs more than it saves. */
  readonly filesBefore?: number;
  /** The thread's first file: another one in tests. */
  readonly entry?: URL;
  /** Told once if the thread cannot start. The pull then goes on without it. */
  readonly warn?: (message: string) => void;
}

export function createFileWriter(options: FileWriterOptions = {}): FileWriter {
  return new ThreadFileWriter(options);
}

class ThreadFileWriter implements FileWriter {
  readonly #filesBefore: number;
  readonly #entry: URL;
  readonly #warn: (message: string) => void;
  #askedCount = 0;
  #thread: Worker | undefined;
  readonly #free: Page[] = [];
  /** in the order in which they were handed over */
  readonly #busy = new Map<number, Page>();
  #filling: Page | undefined;
  // Folders may hold a quarter of the descriptors of the process.
  readonly #foldersMax = shareOfDescriptors(4, WAITING_FOLDERS_MAX);
  /** By the descriptors of folders with files that are not over: the page of the last of them. */
  readonly #lastPages = new Map<number, Page>();
  #isHandOverDue = false;
  readonly #idle: (() => void)[] = [];
  #isReady = false;
  #isClosing = false;
  #failure: Error | undefined;

  constructor({
    // A thread takes some 20 ms and 20 MiB. A few hundred files take as long.
    filesBefore = 200,
    entry = ENTRY,
    warn = () => undefined,
  }: FileWriterOptions) {
    this.#filesBefore = filesBefore;
    this.#entry = entry;
    this.#warn = warn;
  }

  /** The thread is ready when the first file is. */
  expect(files: number): void {
    if (files <= this.#filesBefore || this.#failure !== undefined) return;
    this.#askedCount = this.#filesBefore;
    this.#thread ??= this.#start();
  }

  take(file: SmallFile, content: Uint8Array): Promise<Placed> | undefined {
    if (this.#askedCount < this.#filesBefore) {
      this.#askedCount += 1;
      return undefined;
    }
    // Only a node can turn out to be another one.
    return this.#take(file, content) as Promise<Placed> | undefined;
  }

  takeUnproven(file: SmallFile, unproven: UnprovenFile): Promise<Placed | 'unproven'> | undefined {
    return this.#take(file, unproven);
  }

  #take(file: SmallFile, content: Uint8Array | UnprovenFile): Promise<Placed | 'unproven'> | undefined {
    if (this.#askedCount < this.#filesBefore || this.#failure !== undefined) return undefined;
    const { descriptor } = file.folder;
    if (descriptor === undefined) return undefined;
    if (this.#lastPages.size >= this.#foldersMax && !this.#lastPages.has(descriptor)) return undefined;
    this.#thread ??= this.#start();
    if (this.#thread === undefined) return undefined;
    const page = this.#add(file, content);
    if (page === undefined) return undefined;
    page.folders.add(descriptor);
    this.#lastPages.set(descriptor, page);
    this.#handOverSoon();
    return new Promise((settle, fail) => page.waiting.push({ settle, fail }));
  }

  afterTaken(descriptor: number, work: () => void): void {
    const last = this.#lastPages.get(descriptor);
    if (last === undefined) work();
    else last.later.push(work);
  }

  async close(): Promise<void> {
    this.#handOver();
    if (this.#busy.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#isClosing = true;
    await this.#thread?.terminate();
    this.#thread = undefined;
  }

  /** Undefined where the system has no room for a thread: then the pull makes its files itself. */
  #start(): Worker | undefined {
    try {
      return this.#startThread();
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  #startThread(): Worker {
    const memories = Array.from({ length: 16 }, () => new SharedArrayBuffer(PAGE_BYTES));
    for (const [number, memory] of memories.entries()) {
      this.#free.push({ number, files: new FilePage(memory), waiting: [], folders: new Set(), later: [] });
    }
    const data: WriterData = { pages: memories };
    const thread = new Worker(this.#entry, { workerData: data });
    thread.on('message', (message: WrittenPage | typeof THREAD_READY) => {
      if (message === THREAD_READY) this.#isReady = true;
      else this.#hear(message);
    });
    thread.on('error', (error: Error) => this.#fail(error.message));
    thread.on('exit', () => this.#fail('it has ended'));
    return thread;
  }

  /** The page that the file was put into; undefined when none has room. */
  #add(file: SmallFile, content: Uint8Array | UnprovenFile): Page | undefined {
    if (this.#filling?.files.add(file, content)) return this.#filling;
    this.#handOver();
    const [page] = this.#free;
    if (page?.files.add(file, content) !== true) return undefined;
    this.#filling = this.#free.shift();
    return page;
  }

  /** Waits for the end of this turn of the event loop, so that other files may join. */
  #handOverSoon(): void {
    if (this.#isHandOverDue) return;
    this.#isHandOverDue = true;
    setImmediate(() => {
      this.#isHandOverDue = false;
      this.#handOverIfIdle();
    });
  }

  /** While the thread has enough to do, the page takes more files, because each message costs as much as a file. */
  #handOverIfIdle(): void {
    // One page is written, and one comes after it.
    if (this.#busy.size < 2) this.#handOver();
  }

  #handOver(): void {
    const page = this.#filling;
    if (page === undefined) return;
    this.#filling = undefined;
    this.#busy.set(page.number, page);
    const filled: FilledPage = { page: page.number, count: page.files.count };
    this.#thread?.postMessage(filled);
  }

  #hear({ page: number, isExclusive, failed }: WrittenPage): void {
    const page = this.#busy.get(number);
    if (page === undefined) return;
    this.#settle(page, isExclusive, failed);
    this.#handOverIfIdle();
  }

  #settle(page: Page, isExclusive: boolean, failed: readonly FailedFile[]): void {
    const failures = new Map(failed.map((each) => [each.index, each]));
    for (const [index, { settle, fail }] of page.waiting.entries()) {
      const failure = failures.get(index);
      if (failure === undefined) settle(isExclusive ? 'exclusive' : 'looked');
      else if (failure.placed !== undefined) settle(failure.placed);
      else fail(errorOf(failure));
    }
    this.#release(page);
  }

  #release(page: Page): void {
    this.#busy.delete(page.number);
    for (const descriptor of page.folders) {
      if (this.#lastPages.get(descriptor) === page) this.#lastPages.delete(descriptor);
    }
    page.folders.clear();
    for (const work of page.later.splice(0)) work();
    page.waiting.length = 0;
    page.files.clear();
    this.#free.push(page);
    if (this.#busy.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  /**
   * The thread is gone: the files that it had fail, because it may have written some of them, and the pull writes those that come.
   * A thread that was never ready has written nothing, so its files are written here.
   */
  #fail(reason: string): void {
    // That the thread ends is what was asked for.
    if (this.#isClosing) return;
    if (!this.#isReady && this.#failure === undefined) {
      this.#warn(`no thread could be started to make small files, so this takes longer: ${reason}`);
    }
    this.#failure ??= new Error(`the thread that makes files failed: ${reason}`);
    this.#handOver();
    for (const page of [...this.#busy.values()]) {
      if (!this.#isReady) {
        const { isExclusive, failed } = writePage(page.files, page.files.count);
        this.#settle(page, isExclusive, failed);
        continue;
      }
      for (const { fail } of page.waiting) fail(this.#failure);
      this.#release(page);
    }
  }
}

function errorOf({ message, code }: Extract<FailedFile, { readonly message: string }>): Error {
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}
