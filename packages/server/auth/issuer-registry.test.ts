/** How old the registered Apps may be when they are used: 5 s, never more (docs/api.md, Capabilities). */
import { describe, expect, test } from 'bun:test';
import { IssuerRegistry } from './issuer-registry.ts';
import { appRecord, ISSUER, MemoryRegistryStore } from './test/auth-fixture.ts';
import { FakeWorld, settle } from './test/fake-world-fixture.ts';

async function openRegistry() {
  const world = new FakeWorld();
  const store = new MemoryRegistryStore(appRecord());
  const registry = new IssuerRegistry(store, world);
  await registry.start();
  return { world, store, registry };
}

describe('the snapshot', () => {
  test('answers without a promise while it is at most 5 s old', async () => {
    const { world, store, registry } = await openRegistry();
    world.stall(5000);
    expect(registry.read()).not.toBeInstanceOf(Promise);
    expect(store.readCount).toBe(1);
    registry.close();
  });

  test('is read again before the answer once it is older', async () => {
    const { world, store, registry } = await openRegistry();
    store.remove('app');
    world.stall(5001);
    const pending = registry.read();
    expect(pending).toBeInstanceOf(Promise);
    expect((await pending).has(ISSUER)).toBe(false);
    expect(store.readCount).toBe(2);
    registry.close();
  });

  test('is read once for any number of requests that find it old', async () => {
    const { world, store, registry } = await openRegistry();
    world.stall(6000);
    await Promise.all(Array.from({ length: 50 }, () => registry.read()));
    expect(store.readCount).toBe(2);
    registry.close();
  });

  test('is renewed outside requests until the registry is closed', async () => {
    const { world, store, registry } = await openRegistry();
    await world.advance(20_000);
    expect(registry.read()).not.toBeInstanceOf(Promise);
    expect(store.readCount).toBeGreaterThanOrEqual(15);
    registry.close();
    const readCount = store.readCount;
    await world.advance(20_000);
    expect(store.readCount).toBe(readCount);
    expect(world.timerCount).toBe(0);
  });

  test('shows a change within 5 s without any request', async () => {
    const { world, store, registry } = await openRegistry();
    store.setStatus('app', 'suspended');
    await world.advance(2000);
    expect((await registry.read()).get(ISSUER)?.status).toBe('suspended');
    registry.close();
  });

  test('knows by the monotonic clock since when an App is stopped', async () => {
    const { world, store, registry } = await openRegistry();
    expect(registry.stoppedForMs('app')).toBe(0);
    expect(registry.stoppedForMs('never seen')).toBe(Number.POSITIVE_INFINITY);
    for (const stop of [() => store.setStatus('app', 'suspended'), () => store.remove('app')]) {
      store.setStatus('app', 'active');
      await world.advance(2000);
      expect(registry.stoppedForMs('app')).toBe(0);
      stop();
      await world.advance(2000);
      const known = registry.stoppedForMs('app');
      expect(known).toBeLessThanOrEqual(2000);
      await world.advance(4000);
      expect(registry.stoppedForMs('app')).toBe(known + 4000);
    }
    registry.close();
  });

  test('survives failed readings for 5 s, and comes back by itself', async () => {
    const { world, store, registry } = await openRegistry();
    store.failure = new Error('locked');
    await world.advance(4000);
    expect((await registry.read()).has(ISSUER)).toBe(true);
    await world.advance(3000);
    await expect(Promise.resolve(registry.read())).rejects.toThrow('cannot be read');
    store.failure = undefined;
    await world.advance(1000);
    expect(registry.read()).not.toBeInstanceOf(Promise);
    registry.close();
  });

  test('does not wait for a store that hangs', async () => {
    const { world, store, registry } = await openRegistry();
    store.gate = new Promise(() => undefined);
    world.stall(6000);
    const pending = Promise.resolve(registry.read()).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    await settle();
    await world.advance(3000);
    expect(await pending).toContain('cannot be read');
    registry.close();
  });

  test('does not pass off a reading that began over 5 s ago as new', async () => {
    const { world, store, registry } = await openRegistry();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    world.stall(6000);
    const pending = Promise.resolve(registry.read()).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    // The process stalls, so the rows arrive before the timeout can fire.
    world.stall(6000);
    gate.resolve();
    expect(await pending).toContain('cannot be read in time');
    registry.close();
  });
});

describe('for an unknown issuer', () => {
  const added = appRecord({ appId: 'added', issuer: 'https://added.test' });

  test('the rows are read again at once, and an App added a moment ago is found', async () => {
    const { store, registry } = await openRegistry();
    store.insert(added);
    expect((await registry.readAgain()).has(added.issuer)).toBe(true);
    expect(store.readCount).toBe(2);
    registry.close();
  });

  test('any number of requests cause one reading a second, and wait for no later one', async () => {
    const { world, store, registry } = await openRegistry();
    const flood = () => Promise.all(Array.from({ length: 50 }, () => registry.readAgain()));
    await flood();
    expect(store.readCount).toBe(2);
    world.stall(999);
    store.insert(added);
    expect((await flood()).some((snapshot) => snapshot.has(added.issuer))).toBe(false);
    expect(store.readCount).toBe(2);
    world.stall(1);
    expect((await flood()).every((snapshot) => snapshot.has(added.issuer))).toBe(true);
    expect(store.readCount).toBe(3);
    registry.close();
  });

  test('a reading that is under way already is not enough: it may have begun before the App was added', async () => {
    const { world, store, registry } = await openRegistry();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    await world.advance(1000);
    expect(store.readCount).toBe(2);
    const again = registry.readAgain();
    await settle();
    expect(store.readCount).toBe(2);
    store.gate = undefined;
    gate.resolve();
    await again;
    expect(store.readCount).toBe(3);
    registry.close();
  });

  test('a known issuer does not wait for that reading', async () => {
    const { store, registry } = await openRegistry();
    store.gate = new Promise(() => undefined);
    const again = registry.readAgain();
    const snapshot = registry.read();
    expect(snapshot).not.toBeInstanceOf(Promise);
    expect((await snapshot).has(ISSUER)).toBe(true);
    registry.close();
    void again;
  });

  test('a reading that fails leaves the snapshot as it is, while that is young', async () => {
    const { store, registry } = await openRegistry();
    store.failure = new Error('locked');
    expect((await registry.readAgain()).has(ISSUER)).toBe(true);
    registry.close();
  });
});

describe('a registration', () => {
  test('stays the same object while its row says the same, whatever its status', async () => {
    const { world, store, registry } = await openRegistry();
    const before = (await registry.read()).get(ISSUER)?.registration;
    store.setStatus('app', 'suspended');
    await world.advance(1000);
    expect((await registry.read()).get(ISSUER)?.registration === before).toBe(true);
    store.replace(appRecord({ audience: 'another' }));
    await world.advance(1000);
    expect((await registry.read()).get(ISSUER)?.registration === before).toBe(false);
    registry.close();
  });

  test('that leaves the registry stops fetching its keys', async () => {
    const { world, store, registry } = await openRegistry();
    world.answer = async () => new Response('{"keys":[]}');
    store.replace(appRecord({ keys: { kind: 'url', url: 'https://issuer.test/jwks' } }));
    await world.advance(1000);
    await (await registry.read()).get(ISSUER)?.registration.keySource.read();
    store.remove('app');
    await world.advance(2000);
    const { fetchCount } = world;
    expect(fetchCount).toBeGreaterThan(0);
    await world.advance(20_000);
    expect(world.fetchCount).toBe(fetchCount);
    registry.close();
  });
});
