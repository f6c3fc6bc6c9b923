/** The rules over rows in a folder or in PostgreSQL, with a clock and randomness of the proof's own. */
import { createHmac } from 'node:crypto';
import {
  type Hash,
  type LeaseResponse,
  NODE_MEDIA_TYPE,
  PACK_MEDIA_TYPE,
  UPLOAD_TTL_MS_DEFAULT,
} from '@holdfast/protocol';
import type { Core } from '../../packages/server/core/core.ts';
import type { PageDamage, RowLook } from '../../packages/server/core/inspection-ports.ts';
import { leaseNode } from '../../packages/server/core/lease/lease-node.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { PackJudgements } from '../../packages/server/core/packs/judge-pack.ts';
import { leaseNodes } from '../../packages/server/core/packs/lease-nodes.ts';
import { leasePack } from '../../packages/server/core/packs/lease-pack.ts';
import { receiveUpload } from '../../packages/server/core/packs/receive-upload.ts';
import type { Signer } from '../../packages/server/core/ports.ts';
import type { ContentCaller } from '../../packages/server/core/read/content-caller.ts';
import { RottenNodes } from '../../packages/server/core/rotten-nodes.ts';
import { StrayWatch } from '../../packages/server/core/stray-watch.ts';
import { DirectStore } from '../../packages/server/core/test/direct-store.ts';
import { openDeployment } from '../../packages/server/deployment/open.ts';
import { unzstd } from '../../packages/server/engine/packed-object.ts';
import { checkPages } from '../../packages/server/engine/sqlite/page-check.ts';
import { openLog } from '../../packages/server/log.ts';
import { JudgingTurns } from '../../packages/server/shares/fair-queue.ts';
import type { CanonicalNode } from '../../test/support/canonical-node.ts';
import { makePack, plain } from '../../test/support/planted-pack.ts';

export const SPACE: Space = { appId: 'app', spaceId: 'space' };
export const OTHER: Space = { appId: 'app', spaceId: 'other' };
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 86_400_000;
/** Later than the clock of any machine: a restore and a copy go by that. */
export const BEGIN_MS = 4_102_444_800_000;
const ORIGIN = 'http://127.0.0.1:1';
const NODE_BYTES_MAX = 1024 * 1024;

export const CALLER: ContentCaller = {
  wantsBytes: true,
  copy: () => Promise.reject(new Error('no content here is as large as that')),
};

export interface World {
  readonly core: Core;
  /** ms; the proof moves it */
  readonly clock: { now: number };
  /** what would have ended the process */
  readonly fatal: readonly Error[];
  close(): Promise<void>;
}

/** Opens what a proof is about. `now`: ms. @throws what a server that starts on it would say */
export type OpenWorld = (now: number, seed: number) => Promise<World>;

export const openFolder =
  (dataDir: string): OpenWorld =>
  async (now, seed) => {
    const clock = { now };
    const fatal: Error[] = [];
    const { rows, bytes, close } = await openEmbedded(dataDir, clock, fatal);
    // A thread takes longer to start than all the rest of a judgement.
    rows.findPageDamage = (look) => findPageDamage(dataDir, look);
    return { core: coreOf(rows, bytes, seed), clock, fatal, close };
  };

async function findPageDamage(dataDir: string, { isRepaired }: RowLook): Promise<readonly PageDamage[]> {
  return [...checkPages(dataDir, isRepaired)].flatMap(({ damage }) => damage);
}

function openEmbedded(dataDir: string, clock: { readonly now: number }, fatal: Error[]) {
  const folder = { kind: 'folder', dataDir } as const;
  return openDeployment(
    { rows: folder, bytes: folder },
    {
      ...{ kind: 'serve', dataDir, workers: 1, isAlone: true, worker: 0 },
      ...{ clock: { now: () => clock.now }, onFatal: (error) => fatal.push(error) },
      ...{ uploadTtlMs: UPLOAD_TTL_MS_DEFAULT, log: openLog('silent') },
    },
  );
}

export function coreOf(rows: Core['metadata'], bytes: Core['content'], seed: number): Core {
  let drawn = seed * 1_000_000;
  return {
    metadata: rows,
    content: bytes,
    random: {
      bytes(count) {
        drawn += 1;
        const made = Buffer.alloc(count);
        made.writeUIntBE(drawn, count - 6, 6);
        return made;
      },
    },
    signer,
    quotas: NO_QUOTAS,
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    settings: {
      ...{ nodeBytesMax: NODE_BYTES_MAX, activeUploadsMax: 64, uploadTtlMs: 5 * MINUTE_MS },
      ...{ abandonedAfterMs: HOUR_MS, rootRefHistoryMs: DAY_MS, keepReplacedMs: 0 },
    },
  };
}

const sign = (purpose: string, message: string): Buffer =>
  createHmac('sha256', 'a key of this proof').update(`${purpose}:${message}`).digest();

export const signer: Signer = {
  sign,
  verify: (purpose, message, signature) => Buffer.compare(sign(purpose, message), signature) === 0,
};

const NO_QUOTAS: Core['quotas'] = {
  find: () => undefined,
  findAppExcess: async () => undefined,
} as unknown as Core['quotas'];

export function lease(
  { core }: World,
  hash: Hash,
  durationMs = MINUTE_MS,
  space = SPACE,
): Promise<LeaseResponse> {
  return leaseNode(core, space, hash, durationMs, () => ORIGIN);
}

/** Lease, and a PUT if it is asked for. */
export async function put(world: World, node: CanonicalNode, space = SPACE): Promise<LeaseResponse> {
  const answer = await lease(world, node.hash, MINUTE_MS, space);
  if ('upload' in answer) await send(world, answer.upload.url, NODE_MEDIA_TYPE, node.bytes);
  return answer;
}

async function send({ core }: World, url: string, contentType: string, bytes: Uint8Array): Promise<void> {
  if (core.content instanceof DirectStore) {
    core.content.put(url, bytes);
    return;
  }
  await receiveUpload(core, {
    token: url.slice(`${ORIGIN}/uploads/`.length),
    ...{ contentType, ifNoneMatch: '*', declaredLength: bytes.length },
    body: new Response(bytes.slice()).body,
  });
}

/** Lease, PUT, lease: the last answer. */
export async function upload(
  world: World,
  node: CanonicalNode,
  durationMs = MINUTE_MS,
  space = SPACE,
): Promise<LeaseResponse> {
  await put(world, node, space);
  return lease(world, node.hash, durationMs, space);
}

export async function uploadPack(
  world: World,
  nodes: readonly CanonicalNode[],
  { isLeased = true }: { readonly isLeased?: boolean } = {},
): Promise<void> {
  const { core } = world;
  const hashes = nodes.map(({ hash }) => hash);
  const request = { hashes, pack: true, leaseDurationMs: MINUTE_MS };
  const { pack } = await leaseNodes(core, SPACE, request, { renewsOnly: false, uploadOrigin: ORIGIN });
  if (pack === undefined) throw new Error('no pack was opened');
  await send(world, pack.url, PACK_MEDIA_TYPE, makePack(nodes.map(plain)));
  if (isLeased) await leasePack(core, SPACE, pack.id, MINUTE_MS, { renewsOnly: false });
}
