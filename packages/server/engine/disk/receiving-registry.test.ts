import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newGeneration, SPACE } from '../test/samples.ts';
import { LocalReceivingRegistry, type ReceivedBytes, type ReceivingRegistry } from './receiving-registry.ts';
import { SharedReceivingRegistry } from './shared-receiving-registry.ts';

const OTHER = { appId: 'app', spaceId: 'other' };
/** Pids are never this large, so no such process lives. */
const DEAD_PID = 2 ** 30;

const sent = (bytes: number): ReceivedBytes => ({ declared: bytes, held: bytes });

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-receiving-'));
  path = join(folder, 'live.db');
});
afterEach(() => rm(folder, { recursive: true }));

describe.each([
  ['one process', () => new LocalReceivingRegistry()],
  ['several processes', () => new SharedReceivingRegistry(path)],
] as [string, () => ReceivingRegistry][])('receiving in %s', (_, open) => {
  test('bytes are reserved per Space until the upload ends, once', () => {
    const registry = open();
    const generation = newGeneration();
    const ends = [registry.begin(SPACE, generation, sent(10)), registry.begin(SPACE, generation, sent(5))];
    const other = registry.begin(OTHER, newGeneration(), sent(7));
    expect([registry.reservedBytes(SPACE), registry.reservedBytes(OTHER)]).toEqual([15, 7]);
    expect([registry.isReceiving(generation), registry.isReceiving(newGeneration())]).toEqual([true, false]);
    ends[0]?.end();
    ends[0]?.end();
    expect([registry.reservedBytes(SPACE), registry.isReceiving(generation)]).toEqual([5, true]);
    ends[1]?.end();
    other?.end();
    expect([registry.reservedBytes(SPACE), registry.reservedBytes(OTHER)]).toEqual([0, 0]);
    expect(registry.isReceiving(generation)).toBe(false);
    registry.close();
  });

  test('four uploads of one generation are received at once', () => {
    const registry = open();
    const generation = newGeneration();
    const ends = Array.from({ length: 4 }, () => registry.begin(SPACE, generation, sent(1)));
    expect(registry.begin(SPACE, generation, sent(1))).toBeUndefined();
    expect(registry.begin(SPACE, newGeneration(), sent(1))).toBeDefined();
    ends[0]?.end();
    expect(registry.begin(SPACE, generation, sent(1))).toBeDefined();
    expect(registry.begin(SPACE, generation, sent(1))).toBeUndefined();
    registry.close();
  });

  test('each PUT counts those of its Space that began before it, at the most that may come', () => {
    const registry = open();
    const undeclared = { declared: 0, held: 100 };
    const first = registry.begin(SPACE, newGeneration(), undeclared);
    registry.begin(OTHER, newGeneration(), sent(7));
    const second = registry.begin(SPACE, newGeneration(), sent(5));
    expect([first?.heldBefore(), second?.heldBefore()]).toEqual([0, 100]);
    expect([registry.heldBytes(SPACE), registry.reservedBytes(SPACE)]).toEqual([105, 5]);
    expect(registry.heldBytesOfApp(SPACE.appId, 'all')).toBe(112);
    expect(registry.heldBytesOfApp(SPACE.appId, 'other processes')).toBe(0);
    first?.end();
    expect([second?.heldBefore(), registry.heldBytes(SPACE)]).toEqual([0, 5]);
    registry.close();
  });
});

describe('several processes', () => {
  test('receive four uploads of one generation together, and those of a killed process do not count', () => {
    const generation = newGeneration();
    const mine = new SharedReceivingRegistry(path);
    const living = new SharedReceivingRegistry(path, process.ppid);
    const dead = new SharedReceivingRegistry(path, DEAD_PID);
    for (const one of [living, living, mine, dead])
      expect(one.begin(SPACE, generation, sent(1))).toBeDefined();
    expect(living.begin(SPACE, generation, sent(1))).toBeDefined();
    expect(mine.begin(SPACE, generation, sent(1))).toBeUndefined();
    for (const one of [mine, living, dead]) one.close();
  });

  test('each sees what the others receive, and nothing of processes that ended', () => {
    const generation = newGeneration();
    const mine = new SharedReceivingRegistry(path);
    const living = new SharedReceivingRegistry(path, process.ppid);
    const dead = new SharedReceivingRegistry(path, DEAD_PID);
    living.begin(SPACE, generation, sent(100));
    dead.begin(SPACE, newGeneration(), sent(1000));
    expect([mine.isReceiving(generation), mine.reservedBytes(SPACE)]).toEqual([true, 100]);
    expect(mine.begin(SPACE, newGeneration(), sent(1))?.heldBefore()).toBe(100);
    expect(mine.heldBytesOfApp(SPACE.appId, 'other processes')).toBe(100);
    for (const one of [living, dead]) one.close();
    expect([mine.isReceiving(generation), mine.reservedBytes(SPACE)]).toEqual([false, 1]);
    mine.close();
  });

  test('an end that cannot be recorded, as on a full disk, fails no upload and is recorded later', () => {
    const registry = new SharedReceivingRegistry(path);
    const generation = newGeneration();
    const received = registry.begin(SPACE, generation, sent(10));
    const disk = new Database(path);
    disk.run('ALTER TABLE receiving RENAME TO away');
    received?.end();
    disk.run('ALTER TABLE away RENAME TO receiving');
    disk.close();
    expect([registry.isReceiving(generation), registry.reservedBytes(SPACE)]).toEqual([false, 0]);
    registry.close();
  });

  test('a process that ended counts for nothing, in any question', async () => {
    // Only Linux tells such processes apart.
    if (process.platform !== 'linux') return;
    // The shell becomes a sleep before its child ends; a sleep never asks for a child's exit code.
    const parent = Bun.spawn(['sh', '-c', 'sleep 1 & echo $!; exec sleep 60'], { stdout: 'pipe' });
    try {
      const { value } = await parent.stdout.getReader().read();
      const pid = Number(new TextDecoder().decode(value));
      const isZombie = async () => /\) Z/.test(await Bun.file(`/proc/${pid}/stat`).text());
      for (let tries = 0; tries < 1000 && !(await isZombie()); tries++) await Bun.sleep(10);
      expect(await isZombie()).toBe(true);
      const ended = new SharedReceivingRegistry(path, pid);
      const mine = new SharedReceivingRegistry(path);
      const generation = newGeneration();
      ended.begin(SPACE, generation, sent(9));
      expect([mine.reservedBytes(SPACE), mine.isReceiving(generation)]).toEqual([0, false]);
      ended.close();
      mine.close();
    } finally {
      parent.kill();
      await parent.exited;
    }
  });

  test('a reused pid takes nothing over from the process that had it before', () => {
    const before = new SharedReceivingRegistry(path);
    before.begin(SPACE, newGeneration(), sent(100));
    const after = new SharedReceivingRegistry(path);
    expect(after.reservedBytes(SPACE)).toBe(0);
    for (const one of [before, after]) one.close();
  });

  test('a damaged file is replaced', async () => {
    await writeFile(path, 'power went away while this was written '.repeat(200));
    const registry = new SharedReceivingRegistry(path);
    registry.begin(SPACE, newGeneration(), sent(3));
    expect(registry.reservedBytes(SPACE)).toBe(3);
    registry.close();
  });
});
