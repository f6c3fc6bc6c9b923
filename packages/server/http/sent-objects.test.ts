/** Objects on disk that are sent as they lie. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { rm, utimes } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { until } from '../../../test/support/until.ts';
import type { ReadAids } from '../core/object-file.ts';
import { MIB, OFFSET, openingsIn, SentWorld, watch } from './test/sent-files-fixture.ts';

let world: SentWorld;
beforeEach(() => {
  world = new SentWorld();
});
afterEach(() => world.close());

describe('an object that is a file', () => {
  test('reaches its stalled readers after it was deleted, and counts until the last has left', async () => {
    await world.open(40 * MIB);
    const { source, reads, content, path } = await world.makeObject(32 * MIB);
    const sockets = await world.stall(source, 3);
    await until(() => openingsIn(path) === 4);
    await rm(path);
    expect(world.files.heldBytes).toBe(32 * MIB);
    expect(reads.length).toBe(17);
    const other = (await world.makeObject(16 * MIB)).source;
    // Long enough for a file without readers to be let go of.
    await Bun.sleep(600);
    await expect(world.files.take(other, 0, MIB, watch())).rejects.toMatchObject({ status: 429 });
    const [last, ...others] = sockets as [Socket, Socket, Socket];
    for (const socket of others) socket.destroy();
    const pieces: Buffer[] = [];
    last.on('data', (piece: Buffer) => void pieces.push(piece));
    last.resume();
    await until(() => openingsIn(path) === 1);
    await until(() => pieces.reduce((sum, { length }) => sum + length, 0) > content.length);
    expect(Buffer.compare(Buffer.concat(pieces).subarray(-content.length), content)).toBe(0);
    await until(() =>
      world.files.take(other, 0, MIB, watch()).then(
        () => true,
        () => false,
      ),
    );
    expect(world.files.heldBytes).toBe(16 * MIB);
    expect(openingsIn(path)).toBe(0);
  }, 60_000);

  test('is sent as it lies in any range, without a copy, each piece proven once', async () => {
    await world.open();
    const { source, reads, content } = await world.makeObject(7 * MIB + 12_345);
    for (const [start, end] of [
      [5 * MIB, 5 * MIB + 10],
      [0, content.length],
      [3 * MIB, 7 * MIB],
    ] as const) {
      const blob = await world.files.take(source, start, end, watch());
      expect(Buffer.compare(await blob.bytes(), content.subarray(start, end))).toBe(0);
    }
    expect(reads.toSorted((a, b) => a - b)).toEqual([OFFSET, 2 * MIB, 4 * MIB, 6 * MIB]);
    expect(openingsIn(world.copyFolder)).toBe(0);
  });

  test('is proven again when it has changed, and left again', async () => {
    await world.open(20 * MIB);
    const { source, reads, path } = await world.makeObject(4 * MIB);
    await world.files.take(source, 0, MIB, watch());
    await utimes(path, 1, 1);
    await world.files.take(source, 0, MIB, watch());
    expect(reads).toEqual([OFFSET, OFFSET]);
    expect(openingsIn(path)).toBe(2);
    const other = (await world.makeObject(10 * MIB)).source;
    await until(() =>
      world.files.take(other, 0, MIB, watch()).then(
        () => true,
        () => false,
      ),
    );
    expect(openingsIn(path)).toBe(0);
  });

  test('that changes while it is proven is proven anew, and never sent while it goes on', async () => {
    await world.open();
    const { source, reads, path } = await world.makeObject(MIB);
    let changes = 1;
    const changing = {
      ...source,
      openFile: async () => {
        const file = await source.openFile();
        const read = async (start: number, end: number, aids?: ReadAids): Promise<Uint8Array> => {
          if (changes-- > 0) await utimes(path, changes, changes);
          return file.read(start, end, aids);
        };
        return { ...file, read };
      },
    };
    expect((await world.files.take(changing, 0, MIB, watch())).size).toBe(MIB);
    expect(reads.length).toBe(2);
    changes = 100;
    await utimes(path, 9, 9);
    await expect(world.files.take(changing, 0, MIB, watch())).rejects.toMatchObject({ status: 503 });
    expect(reads.length).toBe(5);
  });
});
