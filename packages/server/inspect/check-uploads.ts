/** Checks the bytes of finished uploads that are not published yet: presence and length, or with `isRead` the bytes. */
import type { Hash } from '@holdfast/protocol';
import { PAGE_ROWS } from '../core/batches.ts';
import { findContentOf, isProofOfRot, verifyInlineNode } from '../core/contents.ts';
import type { Core } from '../core/core.ts';
import type { FinishedUpload } from '../core/inspection-ports.ts';
import type { Space } from '../core/model.ts';
import { ContentLost } from '../core/store-failure.ts';
import type { ContentCheck, FoundFault } from './check-contents.ts';

export async function checkUploads(
  core: Core,
  space: Space,
  check: Pick<ContentCheck, 'isRead' | 'signal'>,
): Promise<readonly FoundFault[]> {
  const faults: FoundFault[] = [];
  for (let after: Hash | undefined; !check.signal.aborted; ) {
    const page = await readPage(core, space, after);
    for (const upload of page) {
      if (check.signal.aborted) break;
      const problem = await proveUpload(core, space, upload, check.isRead(upload.hash));
      // A lease that publishes it or another upload may have removed the row meanwhile.
      if (problem === undefined || !(await readPage(core, space, after)).some(isSame(upload))) continue;
      faults.push({
        kind: problem instanceof ContentLost ? 'lost' : 'damaged',
        hash: upload.hash,
        message: `of its open upload: ${problem.message}: lease the node and upload its bytes again`,
        repaired: false,
      });
    }
    after = page.at(-1)?.hash;
    if (page.length < PAGE_ROWS) break;
  }
  return faults;
}

function readPage(core: Core, space: Space, after: Hash | undefined): Promise<readonly FinishedUpload[]> {
  return core.metadata.inspect(space, async (snapshot) => snapshot.readUploads(after, PAGE_ROWS));
}

const isSame =
  ({ generation }: FinishedUpload) =>
  (other: FinishedUpload): boolean =>
    other.generation === generation;

/** Resolves with the fault, or undefined. Rejects if the store is unavailable. */
async function proveUpload(
  core: Core,
  space: Space,
  { hash, generation, canonicalSize, inline, integrity }: FinishedUpload,
  isRead: boolean,
): Promise<Error | undefined> {
  try {
    if (inline) {
      const content = await core.metadata.transact(space, findContentOf, generation);
      if (content === undefined) throw new ContentLost('its content record is gone');
      if (isRead) verifyInlineNode(core, content, hash);
      return undefined;
    }
    const object = { space, generation, canonicalSize, integrity };
    if (isRead) await core.content.verify(object, hash);
    else await core.content.prove(object, canonicalSize - 1, canonicalSize);
    return undefined;
  } catch (error) {
    if (isProofOfRot(error)) return error as Error;
    throw error;
  }
}
