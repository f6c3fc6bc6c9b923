import { describe, expect, test } from 'bun:test';
import { FakeSpace, readAll, rejection } from '../../test/fake-space-fixture.ts';
import { buildFile } from '../build/builders.ts';
import { CHUNK_BYTES_MAX } from '../format/tree-format.ts';
import { getFile } from '../read/get-file.ts';
import { SourceChangedError } from './node-supply.ts';
import { type PutFileProgress, putFile } from './put-file.ts';

/** Some chunks: noise that no run repeats. */
function makeNoise(bytes: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(bytes / 4));
  let x = 7;
  for (let index = 0; index < words.length; index += 1) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[index] = x >>> 0;
  }
  return new Uint8Array(words.buffer, 0, bytes);
}

const LARGE = makeNoise(3 * CHUNK_BYTES_MAX);

describe.each([true, false])('putFile, with Bulk: %p', (offersBulk) => {
  const makeSpace = (): FakeSpace => Object.assign(new FakeSpace(), { offersBulk });

  test.each([
    ['large', LARGE],
    ['small', LARGE.subarray(0, 100)],
    ['empty', new Uint8Array(0)],
  ])('a %s file has the root that a push gives it, and comes back', async (_, bytes) => {
    const space = makeSpace();
    const told: PutFileProgress[] = [];
    const client = space.client();
    const put = await putFile(client, new Blob([bytes]), { onProgress: (each) => told.push(each) });
    const built = await buildFile({ emit: () => undefined }, [bytes]);
    expect(put).toMatchObject({ ...built, uploadedNodes: space.nodes.size });
    expect(told.at(-1)).toMatchObject({ phase: 'sending', bytes: bytes.length, totalBytes: bytes.length });
    expect(told.some(({ phase, bytes: done }) => phase === 'hashing' && done === bytes.length)).toBe(true);
    const stored = await getFile(client, put.hash);
    expect(stored.bytes).toBe(bytes.length);
    expect(Buffer.compare(await readAll(stored.body), bytes)).toBe(0);
    const range = { start: 10, end: 50 };
    const part = await readAll((await getFile(client, put.hash, { range })).body);
    expect(Buffer.compare(part, bytes.subarray(10, 50))).toBe(0);
    // Again: nothing is sent.
    expect((await putFile(client, new Blob([bytes]))).uploadedNodes).toBe(0);
  });
});

/** A file of the disk that is read in pieces of `pieceBytes`, and never whole. */
class WatchedFile extends File {
  mostAtOnce = 0;

  override async arrayBuffer(): Promise<ArrayBuffer> {
    throw new Error('the whole file was read into memory');
  }

  override slice(start = 0, end = this.size): Blob {
    this.mostAtOnce = Math.max(this.mostAtOnce, end - start);
    return super.slice(start, end);
  }
}

test('the file is never read whole', async () => {
  const file = new WatchedFile([LARGE], 'large.bin');
  await putFile(new FakeSpace().client(), file);
  expect(file.mostAtOnce).toBeGreaterThan(0);
  expect(file.mostAtOnce).toBeLessThanOrEqual(CHUNK_BYTES_MAX);
});

test('a file that becomes shorter is named', async () => {
  class CutFile extends File {
    override slice(start: number, end: number): Blob {
      return super.slice(start, Math.max(start, end - 1));
    }
  }
  const error = await rejection(putFile(new FakeSpace().client(), new CutFile([LARGE], 'large.bin')));
  expect(error).toBeInstanceOf(SourceChangedError);
  expect((error as SourceChangedError).source).toBe('large.bin');
});

test('an aborted signal ends it with its reason', async () => {
  const reason = new Error('enough');
  const client = new FakeSpace().client();
  expect(await rejection(putFile(client, new Blob([LARGE]), { signal: AbortSignal.abort(reason) }))).toBe(
    reason,
  );
});
