/** One stored file as a stream: what `putFile` stored, or any file of a tree. */
import type { Hash } from '@holdfast/protocol';
import { type CheckedCall, checkHash, checkMethod, checkOptions } from '../../arguments.ts';
import type { Client } from '../../client.ts';
import { TreeFormatError } from '../format/tree-format.ts';
import { type FileReadOptions, readFilePieces } from './file-parts.ts';
import { createNodeSource, openTree } from './open-tree.ts';

const GET_FILE: CheckedCall = { name: 'getFile', requestOperation: 'readNodes' };

export interface StoredFile {
  /** of the whole file, also where `body` is a range */
  readonly bytes: number;
  /** The file, or the range of it, in verified pieces. Cancel it to stop early. `await new Response(body).blob()` takes it whole. */
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>;
}

/** The file whose root is `hash`, in the memory of some chunks. Rejects, as `body` does, with CasError, or TreeFormatError: no file. */
export async function getFile(
  client: Pick<Client, 'getNode'>,
  hash: Hash,
  options: FileReadOptions = {},
): Promise<StoredFile> {
  checkMethod(GET_FILE, 'client', client, 'getNode');
  checkHash(GET_FILE, hash);
  checkOptions(GET_FILE, options);
  const source = createNodeSource(client);
  const { kind, bytes } = await openTree(source).readItem(hash, options);
  if (kind !== 'file') throw new TreeFormatError(`a file should be here; this is a ${kind}`, hash);
  const pieces = readFilePieces(source, { hash, bytes }, options);
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done === true) controller.close();
        else controller.enqueue(value as Uint8Array<ArrayBuffer>);
      },
      async cancel() {
        await pieces.return();
      },
    },
    // Nothing is read before it is asked for, but for the chunks that are read ahead.
    { highWaterMark: 0 },
  );
  return { bytes, body };
}
