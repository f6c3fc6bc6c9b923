/** What a schedule begins with: the target in each state that it may be in, with its bytes in each place where they may be. */

import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { setRotten } from '../../packages/server/core/contents.ts';
import { StoreUnavailable } from '../../packages/server/core/store-failure.ts';
import { HOUR_MS, MINUTE_MS } from '../row-rot/world.ts';
import { ACTORS, uploadPack } from './actors.ts';
import type { CastName } from './cast.ts';
import type { Play } from './play.ts';

interface Scene {
  readonly cast: CastName;
  prepare(play: Play): Promise<unknown>;
}

const LEASES_END_MS = 2 * MINUTE_MS;
const NODES_PER_GC = 100;

const endLeases = (play: Play): void => {
  play.world.clock.now += LEASES_END_MS;
};

type Place = 'inline' | 'object' | 'packed';

/** The target is ready, and leased for a minute. */
async function store(play: Play, place: Place): Promise<void> {
  const { core } = play.world;
  if (place === 'packed') await uploadPack(play, core, [play.cast.target, ...play.cast.siblings]);
  else await play.upload(core, play.cast.target);
}

const STATES: Readonly<Record<string, (play: Play, place: Place) => Promise<unknown>>> = {
  leased: store,
  async free(play, place) {
    await store(play, place);
    endLeases(play);
  },
  async rooted(play, place) {
    await store(play, place);
    await play.commit(play.world.core, 'main', play.cast.target, 1);
    endLeases(play);
  },
  async child(play, place) {
    await store(play, place);
    const { core } = play.world;
    await play.upload(core, play.cast.parent);
    await play.commit(core, 'main', play.cast.parent, 1);
    endLeases(play);
  },
  async rotten(play, place) {
    await store(play, place);
    const { core } = play.world;
    await play.commit(core, 'main', play.cast.target, 1);
    endLeases(play);
    await rot(play);
  },
  async 'rotten and free'(play, place) {
    await store(play, place);
    endLeases(play);
    await rot(play);
  },
};

async function rot(play: Play): Promise<void> {
  const { world, space, cast } = play;
  const row = await world.core.metadata.findNode(space, cast.target.hash);
  if (row === undefined) throw new Error('the scene has no target');
  play.lost.add(row.hash);
  const found = { hash: row.hash, generation: row.generation, packed: undefined };
  await world.core.metadata.transact(space, setRotten, found);
  if (row.storage === 'object') await world.core.content.delete(space, [row.generation]);
}

/** The store of bytes was away when the target was collected. */
async function claim(play: Play): Promise<void> {
  await store(play, 'object');
  endLeases(play);
  const { core } = play.world;
  const failure = new StoreUnavailable('planted: the store is away');
  const away = { ...core, content: Object.create(core.content) };
  Object.defineProperty(away.content, 'delete', { value: async () => ({ deleted: new Set(), failure }) });
  for (const name of ['upload', 'packs'])
    Object.defineProperty(away.content, name, { value: core.content[name as 'upload'] });
  await runGc(away, play.space, NODES_PER_GC).catch(() => undefined);
}

async function open(play: Play): Promise<void> {
  const answer = await play.lease(play.world.core, play.cast.target);
  if (answer !== undefined && 'upload' in answer) play.openUpload = answer.upload;
}

async function finish(play: Play): Promise<void> {
  await open(play);
  const { core } = play.world;
  if (play.openUpload !== undefined) await play.put(core, play.openUpload.url, play.cast.target.bytes);
  play.openUpload = undefined;
}

/** Most of a pack is dead. */
async function thin(play: Play): Promise<void> {
  await store(play, 'packed');
  await play.commit(play.world.core, 'main', play.cast.target, 1);
  endLeases(play);
  await runGc(play.world.core, play.space, NODES_PER_GC);
}

/** Some small objects, for packing. */
async function scatter(play: Play): Promise<void> {
  const { core } = play.world;
  for (const node of [play.cast.target, ...play.cast.siblings]) await play.upload(core, node);
  await play.commit(core, 'main', play.cast.target, 1);
  endLeases(play);
}

function unfinished(cast: CastName): Readonly<Record<string, Scene>> {
  return {
    [`absent, ${cast}`]: { cast, prepare: async () => undefined },
    [`open, ${cast}`]: { cast, prepare: open },
    [`accepted, ${cast}`]: { cast, prepare: finish },
    [`waiting, ${cast}`]: { cast, prepare: (play) => play.upload(play.world.core, play.cast.parent) },
    [`abandoned, ${cast}`]: {
      cast,
      async prepare(play) {
        await open(play);
        await play.upload(play.world.core, play.cast.parent);
        play.world.clock.now += 2 * HOUR_MS;
      },
    },
  };
}

const PLACES: Readonly<Record<Place, CastName>> = { inline: 'inline', object: 'object', packed: 'object' };

export const SCENES: Readonly<Record<string, Scene>> = {
  ...unfinished('inline'),
  ...unfinished('object'),
  ...Object.fromEntries(
    Object.entries(PLACES).flatMap(([place, cast]) =>
      Object.entries(STATES).map(([state, prepare]) => [
        `${state}, ${place}`,
        { cast, prepare: (play: Play) => prepare(play, place as Place) },
      ]),
    ),
  ),
  claimed: { cast: 'object', prepare: claim },
  'thin pack': { cast: 'object', prepare: thin },
  scattered: { cast: 'object', prepare: scatter },
  'thin pack, small': { cast: 'inline', prepare: thin },
  'discarded pack': {
    cast: 'object',
    async prepare(play) {
      await store(play, 'packed');
      endLeases(play);
      await ACTORS.collection?.(play, play.world.core);
    },
  },
};
