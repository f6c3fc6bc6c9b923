/** accept-restore over real rows: the epoch moves last, so a call that fails at any step can be repeated as a whole. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Core } from '../core/core.ts';
import type { SigningSecrets } from '../core/signing-secrets.ts';
import { isBehind, readEpochs } from '../core/store-epoch.ts';
import { StrayWatch } from '../core/stray-watch.ts';
import { openTemporaryEngine, type TemporaryEngine } from '../deployment/test/embedded-engine-fixture.ts';
import { newGeneration } from '../engine/test/samples.ts';
import { acceptRestore } from './accept-restore.ts';
import type { OperationCall } from './operation.ts';

/** More than a walk gives tombstones to, unless an operator accepted them. */
const STRAYS = 40;

let engine: TemporaryEngine;
let bucket: number;
let done: string[];
beforeEach(async () => {
  engine = await openTemporaryEngine();
  done = [];
});
afterEach(() => engine.destroy());

/** `failing`: the step that fails */
function makeCall(failing?: string): OperationCall {
  const step = (name: string): void => {
    done.push(name);
    if (name === failing) throw new Error(`${name} failed`);
  };
  const metadata = new Proxy(engine.metadata, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      return async (...args: unknown[]) => {
        const [kind, rows] = args as [string, { readonly name: string }];
        if (name === 'settle') step(kind === 'note' ? `note ${rows.name}` : kind);
        return (value as (...given: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const epoch = {
    read: async () => bucket,
    write: async (next: number) => {
      step('bucket');
      bucket = next;
    },
  };
  const core = { metadata, content: { epoch } } as unknown as Core;
  const secret = { replace: async (_: SigningSecrets) => step('secret') };
  return { core, deployment: { secret } } as unknown as OperationCall;
}

const accept = (failing?: string) => acceptRestore.run(makeCall(failing), {});
const isRefused = async () => isBehind(await readEpochs(makeCall().core));
const STEPS = ['secret', 'revisions', 'note strays-accepted-until', 'note store-epoch', 'bucket'];

async function buryAll(): Promise<void> {
  const keys = Array.from({ length: STRAYS }, () => ({
    spaceKey: '0'.repeat(32),
    generation: newGeneration(),
  }));
  const now = await engine.metadata.readClock();
  await new StrayWatch().findKept(engine.metadata, keys, now);
}

test('a call that fails before the rows have the epoch leaves them behind their bucket, and the next does every step', async () => {
  await engine.metadata.settle('note', { name: 'store-epoch', value: '3' });
  bucket = 5;
  for (const failing of STEPS.slice(0, 4)) {
    done = [];
    await expect((async () => accept(failing))()).rejects.toThrow(`${failing} failed`);
    expect(done).toEqual(STEPS.slice(0, STEPS.indexOf(failing) + 1));
    expect(await isRefused()).toBe(true);
  }
  done = [];
  expect(await accept()).toEqual({ wasBehind: true });
  expect(done).toEqual(STEPS);
  expect([await isRefused(), bucket]).toEqual([false, 6]);
});

test('rows that are not behind keep secrets, revisions and epoch, and what they do not know gets tombstones', async () => {
  await engine.metadata.settle('note', { name: 'store-epoch', value: '5' });
  bucket = 5;
  await expect(buryAll()).rejects.toThrow('accept-restore');
  expect(await accept()).toEqual({ wasBehind: false });
  expect(done).toEqual(['note strays-accepted-until']);
  expect([await engine.metadata.page('note', 'store-epoch'), bucket]).toEqual(['5', 5]);
  await buryAll();
});

test('what a restored database does not know gets tombstones', async () => {
  await engine.metadata.settle('note', { name: 'store-epoch', value: '3' });
  bucket = 5;
  await expect(buryAll()).rejects.toThrow('accept-restore');
  await accept();
  await buryAll();
});
