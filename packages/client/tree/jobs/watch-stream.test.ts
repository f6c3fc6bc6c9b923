import { expect, test } from 'bun:test';
import { SILENT_PROGRESS } from './progress.ts';
import { type StreamWaits, watchStream } from './watch-stream.ts';

/** A stream that gives what it is told to, when it is told to, and what a job hears while it is read. */
function watched(waits: StreamWaits) {
  const open = new Set<string>();
  const items: string[] = [];
  let given!: ReadableStreamDefaultController<Uint8Array>;
  let cancelledWith: unknown;
  const source = new ReadableStream<Uint8Array>({
    start(controller) {
      given = controller;
    },
    cancel(reason) {
      cancelledWith = reason;
    },
  });
  const progress = {
    ...SILENT_PROGRESS,
    item: (item: string) => void items.push(item),
    waitFor: (cause: string) => {
      open.add(cause);
      return () => void open.delete(cause);
    },
  };
  const reader = watchStream(source, progress, waits).getReader();
  return { reader, given, open, items, cancelledWith: () => cancelledWith };
}

test('what is waited for is told as long as it lasts, and no piece is asked for ahead', async () => {
  const { reader, given, open, items } = watched({ coming: 'coming', taken: 'taken', item: 'a hash' });
  expect([...open]).toEqual([]);
  const first = reader.read();
  await Promise.resolve();
  expect([...open]).toEqual(['coming']);
  given.enqueue(Uint8Array.of(1));
  expect((await first).value).toEqual(Uint8Array.of(1));
  expect([[...open], items]).toEqual([['taken'], ['a hash']]);
  const last = reader.read();
  given.close();
  expect(await last).toMatchObject({ done: true });
  expect([[...open], items]).toEqual([[], ['a hash']]);
});

test('only what has a name is told', async () => {
  const { reader, given, open, items } = watched({});
  const first = reader.read();
  await Promise.resolve();
  expect([...open]).toEqual([]);
  given.enqueue(Uint8Array.of(1));
  await first;
  expect([[...open], items]).toEqual([[], []]);
});

test('a source that fails, and a reader that leaves, leave nothing waiting', async () => {
  const failing = watched({ coming: 'coming' });
  const read = failing.reader.read();
  failing.given.error(new Error('cut'));
  await expect(read).rejects.toThrow('cut');
  expect([...failing.open]).toEqual([]);

  const left = watched({ coming: 'coming', taken: 'taken' });
  const first = left.reader.read();
  left.given.enqueue(Uint8Array.of(1));
  await first;
  expect([...left.open]).toEqual(['taken']);
  await left.reader.cancel('enough');
  expect([...left.open]).toEqual([]);
  expect(left.cancelledWith()).toBe('enough');
});
