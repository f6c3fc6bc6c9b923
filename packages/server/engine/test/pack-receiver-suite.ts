/** Receiving packs (core/pack-ports.ts PackReceiver), where the store has a receiver of its own. */
import { expect, test } from 'bun:test';
import type { Generation } from '../../core/model.ts';
import type { StagedPack } from '../../core/pack-ports.ts';
import type { UploadBody, UploadReceiver } from '../../core/upload-ports.ts';
import type { ContentUnderTest } from './content-under-test.ts';
import { NOW, newGeneration, SPACE } from './samples.ts';

const BYTES_MAX = 1_000_000;

export function testPackReceiver(subject: ContentUnderTest): void {
  const receiver = (): UploadReceiver => {
    const { upload } = subject.opened.store;
    if (upload.kind !== 'server') throw new Error('this store has no receiver');
    return upload.receiver;
  };
  const receive = (generation: Generation, body: UploadBody, length?: number) =>
    receiver().receivePack({ space: SPACE, generation }, body, length, BYTES_MAX);
  const bytesOf = (length: number, seed: number): Uint8Array => {
    const bytes = new Uint8Array(length);
    for (let index = 0; index < length; index++) bytes[index] = (index * 7 + (index >> 9) + seed) & 0xff;
    return bytes;
  };
  const read = (generation: Generation) =>
    subject.opened.store.packs.inspect(SPACE, generation, async (object) =>
      Buffer.concat(await Array.fromAsync(object.read(), (piece) => piece.slice())),
    );
  const finish = async (generation: Generation, staged: StagedPack): Promise<boolean> => {
    const isSealed = await staged.seal();
    if (isSealed) subject.opened.finish(generation);
    await staged.release();
    return isSealed;
  };

  test('packs of any size, in pieces and whole, become their objects', async () => {
    for (const length of [0, 1, 262_144, 262_145, BYTES_MAX]) {
      for (const isWhole of [true, false]) {
        const generation = newGeneration();
        const bytes = bytesOf(length, 1);
        const staged = await receive(generation, isWhole ? bytes : inPieces(bytes), length);
        expect(staged.bytes).toBe(length);
        expect(await read(generation)).toBeUndefined();
        expect(await finish(generation, staged)).toBe(true);
        expect(Buffer.compare((await read(generation)) ?? Buffer.alloc(1), bytes)).toBe(0);
      }
    }
  });

  test('the memory of a piece is given back when it is written, and that of a whole pack stays with its owner', async () => {
    const pieces = [bytesOf(300_000, 2), bytesOf(1000, 3)];
    const toStream = (of: readonly Uint8Array[]) =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (const piece of of) controller.enqueue(piece);
          controller.close();
        },
      });
    const staged = await receive(newGeneration(), toStream(pieces));
    expect(pieces.map((piece) => piece.length)).toEqual([0, 0]);
    await staged.release();
    const whole = bytesOf(1000, 4);
    await (await receive(newGeneration(), whole)).release();
    expect(whole.length).toBe(1000);
  });

  test('a pack over the limit is read no further than the limit, and nothing of it stays', async () => {
    const generation = newGeneration();
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(100_000));
      },
    });
    const staged = await receive(generation, endless);
    expect(staged.bytes).toBeUndefined();
    expect(pulled).toBeLessThan(20);
    expect(receiver().isReceiving(generation)).toBe(true);
    await staged.release();
    expect(receiver().isReceiving(generation)).toBe(false);
    expect(await read(generation)).toBeUndefined();
  });

  test('a pack that breaks off, or ends early, leaves nothing, and can be sent again', async () => {
    const generation = newGeneration();
    const bytes = bytesOf(500_000, 2);
    await expect(receive(generation, inPieces(bytes, new Error('reset')), 600_000)).rejects.toThrow('reset');
    await expect(receive(generation, inPieces(bytes), 600_000)).rejects.toThrow('broke off');
    expect([receiver().isReceiving(generation), receiver().reservedBytes(SPACE)]).toEqual([false, 0]);
    const staged = await receive(generation, inPieces(bytes), bytes.length);
    expect(receiver().reservedBytes(SPACE)).toBe(bytes.length);
    expect(await finish(generation, staged)).toBe(true);
    expect(receiver().reservedBytes(SPACE)).toBe(0);
  });

  test('a pack that is read whole counts as being received while it is read, and leaves nothing if it is cut off', async () => {
    const generation = newGeneration();
    const bytes = bytesOf(40_000, 5);
    let seen: unknown;
    const cut = async (): Promise<Uint8Array> => {
      seen = [receiver().isReceiving(generation), receiver().reservedBytes(SPACE)];
      throw new Error('planted: the connection was closed');
    };
    await expect(receive(generation, cut, bytes.length)).rejects.toThrow('planted');
    expect(seen).toEqual([true, bytes.length]);
    expect([receiver().isReceiving(generation), receiver().reservedBytes(SPACE)]).toEqual([false, 0]);
    const staged = await receive(generation, async () => bytes, bytes.length);
    expect(await finish(generation, staged)).toBe(true);
    expect(Buffer.compare((await read(generation)) ?? Buffer.alloc(1), bytes)).toBe(0);
  });

  test('of overlapping uploads of one pack the first sealed stays, whatever bytes the others bring', async () => {
    const generation = newGeneration();
    const [first, second] = [bytesOf(300_000, 3), bytesOf(300_001, 4)];
    const one = await receive(generation, first);
    const two = await receive(generation, second);
    expect(await two.seal()).toBe(true);
    subject.opened.finish(generation);
    expect(await one.seal()).toBe(false);
    await one.release();
    await two.release();
    expect(Buffer.compare((await read(generation)) ?? Buffer.alloc(0), second)).toBe(0);
    await subject.opened.store.sweep(async (keys) => new Set(keys.map((key) => key.generation)), NOW);
    expect((await read(generation))?.length).toBe(second.length);
  });

  test('a pack that was sealed and not recorded is removed, so that it can be sent again', async () => {
    const generation = newGeneration();
    const staged = await receive(generation, bytesOf(400_000, 5));
    expect(await staged.seal()).toBe(true);
    await staged.release();
    expect(await read(generation)).toBeUndefined();
    const again = bytesOf(300_000, 6);
    expect(await finish(generation, await receive(generation, again))).toBe(true);
    expect(Buffer.compare((await read(generation)) ?? Buffer.alloc(0), again)).toBe(0);
  });
}

function inPieces(bytes: Uint8Array, end?: Error): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (position < bytes.length) controller.enqueue(bytes.slice(position, position + 70_000));
        else if (end === undefined) controller.close();
        else throw end;
        position += 70_000;
      },
    },
    { highWaterMark: 0 },
  );
}
