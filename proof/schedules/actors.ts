/** The operations of clients, and everything that runs beside them: each may be the one that is cut in two, or what runs between. */
import { type Hash, PACK_MEDIA_TYPE } from '@holdfast/protocol';
import { purgeSpace } from '../../packages/server/core/collect/purge-space.ts';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { scrub } from '../../packages/server/core/collect/scrub.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { Core } from '../../packages/server/core/core.ts';
import { compactPacks } from '../../packages/server/core/packs/compact-packs.ts';
import { leaseNodes } from '../../packages/server/core/packs/lease-nodes.ts';
import { leasePack } from '../../packages/server/core/packs/lease-pack.ts';
import { packSmallNodes } from '../../packages/server/core/packs/pack-small-nodes.ts';
import { readNodes } from '../../packages/server/core/read/read-nodes.ts';
import type { CanonicalNode } from '../../test/support/canonical-node.ts';
import { makePack, plain, takeApart } from '../../test/support/planted-pack.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../row-rot/world.ts';
import { backUp } from './back-up.ts';
import { migrate } from './migrate.ts';
import { ORIGIN, type Play } from './play.ts';
import { untilDone } from './settle.ts';

/** Runs whole, unless a turn of `core` cuts it in two. */
export type Actor = (play: Play, core: Core) => Promise<unknown>;

const NODES_PER_GC = 100;
/** of as few nodes as a schedule has, young ones too */
const PACKING = { nodesMin: 2, ageMs: 0 };

const everyone = (play: Play): CanonicalNode[] => [play.cast.target, ...play.cast.siblings];

async function leaseMany(play: Play, core: Core, nodes: readonly CanonicalNode[], pack: boolean) {
  const request = { hashes: nodes.map(({ hash }) => hash), pack, leaseDurationMs: MINUTE_MS };
  const options = { renewsOnly: false, uploadOrigin: ORIGIN };
  const until = play.world.clock.now + MINUTE_MS;
  const answer = await play.ask('leases', [], () => leaseNodes(core, play.space, request, options));
  noteResults(play, answer?.results ?? [], until);
  return answer?.pack;
}

type Results = readonly { readonly state: string; readonly hash: Hash }[];

function noteResults(play: Play, results: Results, until: number): void {
  for (const { state, hash } of results) if (state === 'ready') play.noteLease(hash, until);
}

export async function uploadPack(play: Play, core: Core, nodes: readonly CanonicalNode[]): Promise<void> {
  const pack = await leaseMany(play, core, nodes, true);
  if (pack === undefined) return;
  const isSent = await play.put(core, pack.url, makePack(nodes.map(plain)), PACK_MEDIA_TYPE);
  const until = play.world.clock.now + MINUTE_MS;
  const answer = await play.ask('the lease of a pack', isSent ? [] : [404, 409], () =>
    leasePack(core, play.space, pack.id, MINUTE_MS, { renewsOnly: false }),
  );
  noteResults(play, answer?.results ?? [], until);
  for (const { hash, state } of answer?.results ?? [])
    if (isSent && state === 'ready') play.lost.delete(hash);
}

async function readMany(play: Play, core: Core): Promise<void> {
  const held = play.nodes.filter((node) => play.isHeld(node) && !play.lost.has(node.hash));
  const hashes = play.nodes.map(({ hash }) => hash);
  const pieces = await play.ask('reads', [], () =>
    Array.fromAsync(readNodes(core, play.space, hashes, false)),
  );
  if (pieces === undefined) return;
  const records = new Map(
    takeApart(Buffer.concat(pieces.flat())).map((record) => [record.hash, record.stored]),
  );
  for (const node of play.nodes) {
    const bytes = records.get(node.hash);
    if (bytes !== undefined && Buffer.compare(bytes, node.bytes) !== 0)
      play.wrong.push(`reads: ${node.hash} is wrong`);
    if (bytes === undefined && held.includes(node) && play.isHeld(node))
      play.wrong.push(`reads: ${node.hash} is gone`);
  }
}

async function putLate(play: Play, core: Core): Promise<void> {
  const { target } = play.cast;
  const upload = play.openUpload;
  if (upload === undefined) return play.upload(core, target);
  if (await play.put(core, upload.url, target.bytes)) play.isAccepted = true;
}

async function purge(play: Play, core: Core): Promise<void> {
  play.beginPurge();
  // Nodes that come meanwhile are left.
  await play.ask('a purge', [503], () => purgeSpace(core, play.space, async () => true));
  play.endPurge();
}

async function scrubAll(play: Play, core: Core): Promise<void> {
  let after: Parameters<typeof scrub>[1];
  await play.ask('a scrub', [], () =>
    untilDone(async () => {
      after = (await scrub(core, after)).next;
      return after !== undefined;
    }),
  );
}

async function passTime(play: Play, ms: number): Promise<void> {
  play.world.clock.now += ms;
  play.isAccepted = false;
}

/** For longer than a server leaves between two looks at its clocks. */
async function setClock(play: Play, core: Core, aheadMs: number): Promise<void> {
  play.world.clock.aheadMs = aheadMs;
  play.isClockSet = true;
  await play.ask('a look at the clocks', [], async () => core.clocks?.assertAgree());
}

export const ACTORS = {
  lease: (play, core) => play.lease(core, play.cast.target),
  'long lease': (play, core) => play.lease(core, play.cast.target, 10 * MINUTE_MS),
  upload: (play, core) => play.upload(core, play.cast.target),
  'late PUT': putLate,
  'upload of a parent': (play, core) => play.upload(core, play.cast.parent),
  commit: (play, core) => play.commit(core, 'main', play.cast.target, 1),
  'commit elsewhere': (play, core) => play.commit(core, 'side', play.cast.target, 2),
  release: (play, core) => play.commit(core, 'main', play.cast.target, -1),
  read: (play, core) => play.read(core, play.cast.target, 'a read'),
  reads: readMany,
  leases: (play, core) => leaseMany(play, core, everyone(play), false),
  pack: (play, core) => uploadPack(play, core, everyone(play)),
  collection: (play, core) => play.ask('a collection', [], () => runGc(core, play.space, NODES_PER_GC)),
  sweep: (play, core) => play.ask('a sweep', [], () => untilDone(async () => (await sweep(core)).moreToDo)),
  scrub: scrubAll,
  packing: (play, core) => {
    const walk = { after: undefined, within: { space: play.space, after: '0'.repeat(32) } };
    return play.ask('packing', [], () => packSmallNodes(core, walk, PACKING));
  },
  compaction: (play, core) => play.ask('compaction', [], () => compactPacks(core, new Set())),
  purge,
  backup: backUp,
  migrate,
  'two minutes': (play) => passTime(play, 2 * MINUTE_MS),
  'two hours': (play) => passTime(play, 2 * HOUR_MS),
  'clock two days ahead': (play, core) => setClock(play, core, 2 * DAY_MS),
  'clock two days back': (play, core) => setClock(play, core, -2 * DAY_MS),
  // Less than clocks may differ.
  'clock 90 s ahead': (play, core) => setClock(play, core, 90_000),
  'clock put right': (play, core) => setClock(play, core, 0),
} satisfies Readonly<Record<string, Actor>> as Readonly<Record<string, Actor>>;
