/** What a transaction finds changed since its caller looked, it leaves as it is. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { makePack, plain } from '../../../test/support/planted-pack.ts';
import { settlePacks } from './collect/sweep-packs.ts';
import { findContentOf, markRotten, setSound } from './contents.ts';
import { dropSeen, noteSeen } from './lease/unseen-uploads.ts';
import type { Generation, NodeRow, UploadEvidence } from './model.ts';
import { beginPack } from './packs/pack-decision.ts';
import { publishGroup } from './packs/publish-group.ts';
import type { SpaceTransaction } from './ports.ts';
import { ContentDamaged, RowDamaged, StoreUnavailable } from './store-failure.ts';
import { CoreWorld, MINUTE_MS, objectNode, SPACE, smallNode } from './test/core-fixture.ts';
import { beforeTransactions, PackClient } from './test/pack-fixture.ts';

const OTHER = 'f'.repeat(32) as Generation;
const node = smallNode(1);

describe('where the server receives', () => {
  let world: CoreWorld;
  let client: PackClient;
  beforeEach(async () => {
    world = await CoreWorld.open();
    client = new PackClient(world, false);
  });
  afterEach(() => world.close());

  const findDiscards = () =>
    world.core.metadata.transact(SPACE, (tx) => tx.due('discards', Number.MAX_SAFE_INTEGER, 10));

  test('a row is sound again only by the bytes that it has now, and only if it is rotten', async () => {
    await world.publish(node);
    const { hash, generation } = (await world.row(node)) as NodeRow;
    const setSoundWith = (of: Generation) =>
      world.core.metadata.transact(SPACE, setSound, { hash, generation: of });
    expect(await setSoundWith(generation)).toBe(false);
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(hash)) as NodeRow;
      await tx.update('node', row, { ...row, state: 'rotten' });
    });
    expect(await setSoundWith(OTHER)).toBe(false);
    expect((await world.row(node))?.state).toBe('rotten');
    expect(await setSoundWith(generation)).toBe(true);
  });

  test('bytes in a row are read once more before they are called rotten', async () => {
    await world.publish(node);
    const row = (await world.row(node)) as NodeRow;
    expect(await markRotten(world.core, SPACE, row, new ContentDamaged('planted'))).toBe('changed');
    expect(await world.row(node)).toEqual(row);
  });

  test('a pack is begun and published once, and not for another generation', async () => {
    const { id } = await client.open([node]);
    expect(await client.put(await client.open([node]), makePack([plain(node)]))).toBe(200);
    const pack = (await client.pack(id))!;
    const { generation } = pack;
    const verdicts = { hashes: new Uint8Array(0), rejections: [], broken: undefined };
    const begin = (of: Generation) =>
      world.core.metadata.transact(SPACE, beginPack, {
        ...{ id, generation: of, bytes: 9, verdicts, hasRecords: false, records: [] },
        ...{ quotas: undefined, uploads: 'server' as const },
      });
    const publish = (of: Generation, from = 0) =>
      world.core.metadata.transact(SPACE, publishGroup, {
        ...{ id, generation: of, from, records: [], isLast: true, durationMs: MINUTE_MS },
        ...{ uploads: 'server' as const, keepReplacedMs: 0 },
      });
    expect(await begin(OTHER)).toEqual({ kind: 'gone' });
    expect(await publish(OTHER)).toEqual({ kind: 'gone' });
    expect(await client.pack(id)).toEqual(pack);
    await client.lease(id);
    const judged = await client.pack(id);
    expect(await begin(generation)).toEqual({ kind: 'judged' });
    expect(await publish(generation)).toEqual({ kind: 'passed' });
    expect(await publish(generation, 1)).toEqual({ kind: 'passed' });
    expect(await client.pack(id)).toEqual(judged);
  });

  test('an upload that nothing came for leaves nothing to delete when a pack brings its node', async () => {
    await world.begin(node);
    await client.send([node]);
    expect(await findDiscards()).toEqual([]);
  });

  test('an upload that ended without a PUT leaves nothing to delete when another one is begun', async () => {
    const first = await world.begin(node);
    world.now = first.upload.expiresAt;
    const second = await world.begin(node);
    expect(second.upload.url).not.toBe(first.upload.url);
    expect(await findDiscards()).toEqual([]);
  });

  test('a damaged record of bytes in a row is proof, and the row stays at it', async () => {
    await world.publish(node);
    const row = (await world.row(node)) as NodeRow;
    const core = beforeTransactions(world.core, findContentOf, () => {
      throw new RowDamaged('planted');
    });
    expect(await markRotten(core, SPACE, row, new ContentDamaged('planted'))).toBe('marked');
    expect(await world.row(node)).toEqual({ ...row, state: 'rotten' });
  });

  test('a pack heals around a record that cannot be deleted, and leaves it', async () => {
    await world.publish(node);
    const row = (await world.row(node)) as NodeRow;
    const damaged = (): never => {
      throw new StoreUnavailable('planted: a page', { isDamage: true });
    };
    const unread = beforeTransactions(world.core, findContentOf, damaged);
    expect(await markRotten(unread, SPACE, row, new ContentDamaged('planted'))).toBe('marked');
    expect(await world.row(node)).toEqual({ ...row, state: 'rotten' });
    const around = beforeTransactions(unread, publishGroup, (earlier) => earlier === 0 && damaged());
    await new PackClient({ ...world, core: around } as CoreWorld, false).send([node]);
    expect(await world.row(node)).toMatchObject({ state: 'ready', storage: 'packed' });
    expect(await world.core.metadata.transact(SPACE, findContentOf, row.generation)).toBeDefined();
    await world.core.metadata.transact(SPACE, (tx) => tx.delete('content', row.generation));
  });

  test('the sweep takes no pack with a live record, whatever an index says', async () => {
    const { id } = await client.send([node]);
    const pack = (await client.pack(id))!;
    const use = { ...(await client.use(id))!, liveRecords: 1 };
    const settle = { abandonedAt: Number.MAX_SAFE_INTEGER, received: [] };
    const rules = { uploads: 'server', keepReplacedMs: 0 } as const;
    const changes: string[] = [];
    const note = (verb: string) => (kind: string) => void changes.push(`${verb} ${kind}`);
    const verbs = { insert: note('insert'), update: note('update'), delete: note('delete') };
    const tx = {
      ...{ now: world.now, ...verbs, due: () => [{ pack, use }] },
    } as unknown as SpaceTransaction;
    expect(await settlePacks(tx, { ...settle, ...rules })).toBe(1);
    expect(changes).toEqual([]);
  });
});

describe('where the store receives', () => {
  let world: CoreWorld;
  let client: PackClient;
  beforeEach(async () => {
    world = await CoreWorld.open({}, { isDirect: true });
    client = new PackClient(world, true);
  });
  afterEach(() => world.close());

  const note = (generation: Generation, of: Parameters<typeof dropSeen>[1]['of']) =>
    world.core.metadata.transact(SPACE, noteSeen, { generation, of, bytes: 7 });
  const drop = (generation: Generation, of: Parameters<typeof dropSeen>[1]['of']) =>
    world.core.metadata.transact(SPACE, dropSeen, { generation, of });

  test('an upload is noted and dropped only while it is the one that was seen', async () => {
    const object = objectNode(1);
    await world.begin(object);
    const upload = await world.core.metadata.findUpload(SPACE, object.hash);
    expect(await note(OTHER, object)).toBe(false);
    await drop(OTHER, object);
    expect(await world.core.metadata.findUpload(SPACE, object.hash)).toEqual(upload);
    expect(await note(upload!.generation, object)).toBe(true);
    // A lease that looked at it before that takes nothing away.
    expect(await drop(upload!.generation, object)).toBe(false);
    const judged: UploadEvidence = { verdict: 'bad', code: 'NODE_DIGEST_MISMATCH', message: 'planted' };
    const setEvidence = (evidence: UploadEvidence | undefined) =>
      world.core.metadata.transact(SPACE, async (tx) => {
        const row = (await tx.findUpload(object.hash))!;
        await tx.update('upload', row, { ...row, evidence });
      });
    await setEvidence(judged);
    expect(await note(upload!.generation, object)).toBe(false);
    await drop(upload!.generation, object);
    expect(await world.core.metadata.findUpload(SPACE, object.hash)).toMatchObject({ evidence: judged });
    await setEvidence(undefined);
    await drop(upload!.generation, object);
    expect(await world.core.metadata.findUpload(SPACE, object.hash)).toBeUndefined();
    expect(await note(upload!.generation, object)).toBe(false);
  });

  test('a pack is noted and dropped only while it is open, and the one that was seen', async () => {
    const { id } = await client.open([node]);
    const of = { pack: id };
    const pack = await client.pack(id);
    expect(await note(OTHER, of)).toBe(false);
    await drop(OTHER, of);
    expect(await client.pack(id)).toEqual(pack);
    const judged = await client.send([smallNode(2)]);
    const { generation } = (await client.pack(judged.id))!;
    const before = await client.pack(judged.id);
    expect(await note(generation, { pack: judged.id })).toBe(false);
    await drop(generation, { pack: judged.id });
    expect(await client.pack(judged.id)).toEqual(before);
    await drop(pack!.generation, of);
    expect(await client.pack(id)).toBeUndefined();
    await drop(pack!.generation, of);
    const seen = await client.open([node]);
    const { generation: its } = (await client.pack(seen.id))!;
    expect([await note(its, { pack: seen.id }), await drop(its, { pack: seen.id })]).toEqual([true, false]);
    expect(await client.pack(seen.id)).toMatchObject({ bytes: 7 });
  });
});
