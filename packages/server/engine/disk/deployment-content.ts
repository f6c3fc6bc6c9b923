/** ContentIntake on the content folder: receives bytes as uploads are received, and seals them at once. */
import type { StoredObject } from '../../core/ports.ts';
import type { StagedUpload, UploadReceiver } from '../../core/upload-ports.ts';
import { codeOf } from '../../error-code.ts';
import { storageError } from '../local-failure.ts';
import type { ContentIntake, IntakeTarget, TakenContent } from '../transfer-ports.ts';
import { diskFiles } from './files.ts';
import type { ObjectLayout } from './object-layout.ts';

interface ContentIntakeOptions {
  readonly receiver: UploadReceiver;
  readonly layout: ObjectLayout;
  /** throws after a write of unknown outcome, because a copy must not continue then */
  readonly assertSound: () => void;
}

export class DiskContentIntake implements ContentIntake {
  readonly uploads = 'server';
  readonly #options: ContentIntakeOptions;

  constructor(options: ContentIntakeOptions) {
    this.#options = options;
  }

  async take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>): Promise<TakenContent> {
    const { receiver, assertSound } = this.#options;
    assertSound();
    const { canonicalSize } = target;
    // The limit is the exact size: a longer body would be another node.
    const limits = { nodeBytesMax: canonicalSize };
    const staged = await receiver.receive(target, open(), canonicalSize, limits);
    try {
      return await seal(staged);
    } catch (error) {
      await staged.release();
      throw error;
    }
  }

  async isThere({ generation, canonicalSize }: StoredObject): Promise<boolean> {
    try {
      const file = await diskFiles.openToRead(this.#options.layout.objectOf(generation));
      try {
        return file.sizeNow() === canonicalSize;
      } finally {
        await file.close();
      }
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw storageError(error, 'looking for an object');
    }
  }
}

async function seal(staged: StagedUpload): Promise<TakenContent> {
  const { evidence, inlineBytes } = staged;
  if (evidence.verdict === 'bad') {
    await staged.release();
    return { isRight: false };
  }
  if (inlineBytes === undefined) await staged.seal();
  const { integrity } = evidence;
  return { isRight: true, integrity, inlineBytes, release: () => staged.release() };
}
