/** Writes the files of a page, one after the other, in the thread that calls it. */
import { withProvenFile } from '../pull/prove-file.ts';
import { type Placed, type SmallFile, writeSmallFile } from '../pull/small-file.ts';
import type { FilePage, PagedFile } from './file-page.ts';
import type { FailedFile, WrittenPage } from './writer-messages.ts';

export function writePage(files: FilePage, count: number): Omit<WrittenPage, 'page'> {
  const failed: FailedFile[] = [];
  let index = 0;
  let isExclusive = true;
  for (const { file, content } of files.read(count)) {
    try {
      const placed = write(file, content);
      if (placed === 'appeared' || placed === 'unproven') failed.push({ index, placed });
      else isExclusive &&= placed === 'exclusive';
    } catch (error) {
      failed.push({ index, ...describe(error) });
    }
    index += 1;
  }
  return { isExclusive, failed };
}

function write(file: SmallFile, content: PagedFile['content']): Placed | 'unproven' {
  if (content instanceof Uint8Array) return writeSmallFile(file, content);
  return withProvenFile(content, (proven) => writeSmallFile(file, proven)) ?? 'unproven';
}

/** The part of an error that crosses to another thread: copied whole, it would lose its code. */
function describe(error: unknown): { message: string; code: string | undefined } {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  return { message, code };
}
