import { afterAll, expect, test } from 'bun:test';
import { type CephServer, openCeph, startCeph } from './ceph-server.ts';
import { listKeys, sendToBucket, type TestBucket } from './s3-request.ts';

const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing.splice(0)) await close();
});

const RACERS = 16;

async function put(bucket: TestBucket, key: string, text: string, headers = {}): Promise<number> {
  return (await sendToBucket(bucket, { method: 'PUT', key, body: text, headers })).status;
}

async function get(bucket: TestBucket, key: string): Promise<string> {
  const response = await sendToBucket(bucket, { method: 'GET', key });
  return response.status === 200 ? response.text() : `status ${response.status}`;
}

test('signatures are checked and conditional writes have one winner', async () => {
  const ceph = await openCeph();
  closing.push(() => ceph.close());
  const [bucket, other] = [await ceph.createBucket(), await ceph.createBucket()];
  const racing = Array.from({ length: RACERS }, (_, index) =>
    put(bucket, 'a/b c', `writer ${index}`, { 'if-none-match': '*' }),
  );
  const statuses = (await Promise.all(racing)).sort();
  expect(statuses).toEqual([200, ...Array.from({ length: RACERS - 1 }, () => 412)]);
  expect(await get(bucket, 'a/b c')).toStartWith('writer ');
  expect(await listKeys(bucket)).toEqual(['a/b c']);
  expect(await listKeys(other)).toEqual([]);
  const forged = { ...bucket, secretAccessKey: 'wrong' };
  expect((await sendToBucket(forged, { method: 'GET', key: 'a/b c' })).status).toBe(403);
  expect((await fetch(`${bucket.endpoint}/${bucket.name}/a`)).status).toBe(403);
}, 300_000);

test('what was stored outlives a kill of the gateway and of all daemons', async () => {
  const ceph: CephServer = await startCeph();
  closing.push(() => ceph.close());
  const bucket = await ceph.createBucket();
  expect(await put(bucket, 'kept', 'bytes')).toBe(200);
  for (const kill of [() => ceph.killGateway(), () => ceph.kill()]) {
    await kill();
    await expect(get(bucket, 'kept')).rejects.toThrow();
    await ceph.restart();
    expect(await get(bucket, 'kept')).toBe('bytes');
  }
}, 300_000);
