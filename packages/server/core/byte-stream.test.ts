import { expect, test } from 'bun:test';
import { readPieces, toByteStream } from './byte-stream.ts';

interface Source {
  readonly pieces: AsyncGenerator<Uint8Array>;
  readonly seen: string[];
}

/** Yields `count` pieces, then ends or fails; tells what was asked of it. */
function makeSource(count: number, failure?: Error): Source {
  const seen: string[] = [];
  async function* yieldAll(): AsyncGenerator<Uint8Array> {
    try {
      for (let index = 0; index < count; index += 1) {
        seen.push(`piece ${index}`);
        yield Uint8Array.of(index);
      }
      if (failure !== undefined) throw failure;
    } finally {
      seen.push('end');
    }
  }
  return { pieces: yieldAll(), seen };
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<number[]> {
  const all: number[] = [];
  for await (const piece of pieces) all.push(...piece);
  return all;
}

test('all pieces arrive in order, there and back', async () => {
  const { pieces, seen } = makeSource(3);
  expect(await collect(readPieces(toByteStream(pieces)))).toEqual([0, 1, 2]);
  expect(seen).toEqual(['piece 0', 'piece 1', 'piece 2', 'end']);
});

test('the source is not asked before somebody reads', async () => {
  const { pieces, seen } = makeSource(3);
  const reader = toByteStream(pieces).getReader();
  await Bun.sleep(0);
  expect(seen).toEqual([]);
  await reader.read();
  expect(seen).toEqual(['piece 0']);
  await reader.cancel();
  expect(seen).toEqual(['piece 0', 'end']);
});

test('leaving the loop early ends the source', async () => {
  const { pieces, seen } = makeSource(3);
  for await (const piece of readPieces(toByteStream(pieces))) {
    expect([...piece]).toEqual([0]);
    break;
  }
  // Nobody waits for a stream that is left, so its end comes a moment later.
  await Bun.sleep(0);
  expect(seen).toEqual(['piece 0', 'end']);
});

test('leaving neither waits for a hanging source nor reports a failed cancel', async () => {
  for (const cancel of [() => new Promise<void>(() => undefined), () => Promise.reject(new Error('no'))]) {
    const stream = new ReadableStream<Uint8Array>({ start: (c) => c.enqueue(Uint8Array.of(7)), cancel });
    for await (const piece of readPieces(stream)) {
      expect([...piece]).toEqual([7]);
      break;
    }
  }
});

test('the reader gets the error of the source', async () => {
  const { pieces } = makeSource(2, new Error('the disk is gone'));
  await expect(collect(readPieces(toByteStream(pieces)))).rejects.toThrow('the disk is gone');
});
