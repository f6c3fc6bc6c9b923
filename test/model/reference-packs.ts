/** The packs of one Space of the reference model, written from docs/bulk.md alone. The place of a record cannot be observed. */
import { getPoolNode } from './node-pool.ts';
import { clampMs, judge, MODEL_SETTINGS, type ModelNode } from './reference-rules.ts';

/** The Space that the packs belong to. */
interface SpaceOfPacks {
  readonly nodes: ReadonlyMap<string, ModelNode>;
  readonly uploads: Pick<Map<string, unknown>, 'delete'>;
  /** uploads and packs */
  countActive(now: number): number;
  /** a node gets good bytes */
  accept(now: number, hash: string, leaseMs: number, storedBytes: number): unknown;
  settle(now: number, node: ModelNode, leaseMs: number): unknown;
}

/** A record as it was sent: its node's bytes, perhaps spoilt. */
export interface ModelRecord {
  readonly hash: string;
  readonly canonical: Uint8Array;
  readonly storedLength: number;
}

export interface ModelPack {
  readonly asked: string;
  state: 'open' | 'judging' | 'judged';
  urlExpiresAt: number;
  touchedAt: number;
  object: readonly ModelRecord[] | undefined;
  isBroken: boolean;
}

export type ExpectedResult =
  | {
      readonly state: 'ready';
      readonly hash: string;
      readonly leaseStartedAt: number;
      readonly leaseExpiresAt: number;
    }
  | {
      readonly state: 'validated_awaiting_children';
      readonly hash: string;
      readonly childHashes: readonly string[];
    }
  | { readonly state: 'absent'; readonly hash: string }
  | { readonly state: 'rejected'; readonly hash: string; readonly code: string };

export type ExpectedLeases =
  | { readonly results: readonly ExpectedResult[]; readonly pack: ModelPack | undefined }
  | { readonly error: 'CAS_UPLOAD_LIMIT' };

export type ExpectedPackLease =
  | { readonly results: readonly ExpectedResult[]; readonly isBroken: boolean }
  | { readonly error: 'NOT_FOUND' | 'CONFLICT' | 'crash' };

const SECOND_MS = 1000;
const URL_MARGIN_MS = 60_000;

export class ReferencePacks {
  readonly #space: SpaceOfPacks;
  readonly #packs = new Set<ModelPack>();
  /** The store takes the PUT itself. */
  readonly #isDirect: boolean;

  constructor(space: SpaceOfPacks, isDirect: boolean) {
    this.#space = space;
    this.#isDirect = isDirect;
  }

  countActive(now: number): number {
    return [...this.#packs].filter(({ state, urlExpiresAt }) => state !== 'judged' && urlExpiresAt > now)
      .length;
  }

  leases(now: number, hashes: readonly string[], durationMs: number, wantsPack: boolean): ExpectedLeases {
    const isAbsent = hashes.some((hash) => !this.#isKept(hash));
    if (!wantsPack || !isAbsent) {
      return { results: this.#leaseRows(now, hashes, clampMs(durationMs)), pack: undefined };
    }
    const pack = this.#open(now, hashes.join());
    if (pack === undefined) return { error: 'CAS_UPLOAD_LIMIT' };
    const leaseMs = Math.max(clampMs(durationMs), pack.urlExpiresAt + URL_MARGIN_MS - now);
    return { results: this.#leaseRows(now, hashes, leaseMs), pack };
  }

  #open(now: number, asked: string): ModelPack | undefined {
    const endsAt = now + MODEL_SETTINGS.uploadTtlMs;
    // A store that takes the PUT itself counts whole seconds.
    const urlExpiresAt = this.#isDirect ? endsAt - (endsAt % SECOND_MS) : endsAt;
    for (const pack of this.#packs) {
      if (
        pack.asked !== asked ||
        pack.state !== 'open' ||
        pack.object !== undefined ||
        pack.urlExpiresAt <= now
      )
        continue;
      pack.touchedAt = now;
      pack.urlExpiresAt = urlExpiresAt;
      return pack;
    }
    if (this.#space.countActive(now) >= MODEL_SETTINGS.activeUploadsMax) return undefined;
    const opened: ModelPack = {
      asked,
      state: 'open',
      urlExpiresAt,
      touchedAt: now,
      object: undefined,
      isBroken: false,
    };
    this.#packs.add(opened);
    return opened;
  }

  /** False: 412. */
  put(pack: ModelPack, records: readonly ModelRecord[], isBroken: boolean): boolean {
    if (!this.#packs.has(pack) || pack.state !== 'open' || pack.object !== undefined) return false;
    pack.object = records;
    pack.isBroken = isBroken;
    return true;
  }

  /** `crashes`: before the first node is published. */
  lease(now: number, pack: ModelPack, durationMs: number, crashes: boolean): ExpectedPackLease {
    const { object, isBroken } = pack;
    const isForgotten = pack.state === 'judged' && pack.touchedAt + MODEL_SETTINGS.abandonedAfterMs <= now;
    if (!this.#packs.has(pack) || isForgotten) return { error: 'NOT_FOUND' };
    if (object === undefined) return { error: 'CONFLICT' };
    const good = object.filter(({ hash, canonical }) => judge(hash, canonical) === undefined);
    const leaseMs = clampMs(durationMs);
    pack.touchedAt = now;
    if (pack.state !== 'judged') {
      pack.state = 'judging';
      if (crashes && good.length > 0) return { error: 'crash' };
      for (const { hash, storedLength } of good) {
        if (this.#isKept(hash)) continue;
        this.#space.uploads.delete(hash);
        this.#space.accept(now, hash, leaseMs, storedLength);
      }
      pack.state = 'judged';
    }
    const leased = this.#leaseRows(
      now,
      good.map(({ hash }) => hash),
      leaseMs,
    );
    const byHash = new Map(leased.map((result) => [result.hash, result]));
    const results = object.map(({ hash, canonical }): ExpectedResult => {
      const code = judge(hash, canonical);
      return code === undefined ? (byHash.get(hash) as ExpectedResult) : { state: 'rejected', hash, code };
    });
    return { results, isBroken };
  }

  /** The last settled state decides: children count before their parents, in any order. */
  #leaseRows(now: number, hashes: readonly string[], leaseMs: number): ExpectedResult[] {
    const { nodes } = this.#space;
    for (let isChanging = true; isChanging; ) {
      isChanging = false;
      for (const hash of hashes) {
        const node = nodes.get(hash);
        if (node?.state !== 'waiting') continue;
        this.#space.settle(now, node, leaseMs);
        isChanging ||= (node.state as string) === 'ready';
      }
    }
    return hashes.map((hash): ExpectedResult => {
      const node = nodes.get(hash);
      if (node === undefined || !this.#isKept(hash)) return { state: 'absent', hash };
      node.touchedAt = now;
      return { hash, ...(this.#space.settle(now, node, leaseMs) as object) } as ExpectedResult;
    });
  }

  #isKept(hash: string): boolean {
    const state = this.#space.nodes.get(hash)?.state;
    return state === 'ready' || state === 'waiting';
  }

  sweep(now: number): number {
    let dropped = 0;
    for (const pack of this.#packs) {
      if (!isAbandoned(pack, now)) continue;
      dropped += 1;
      if (pack.state === 'open') this.#packs.delete(pack);
      else pack.state = 'judged';
    }
    return dropped;
  }

  hasAbandoned(now: number): boolean {
    return [...this.#packs].some((pack) => isAbandoned(pack, now));
  }
}

function isAbandoned({ state, touchedAt, urlExpiresAt }: ModelPack, now: number): boolean {
  return state !== 'judged' && Math.max(touchedAt, urlExpiresAt) <= now - MODEL_SETTINGS.abandonedAfterMs;
}

/** Canonical bytes of those that a read answers, in order. */
export function findReadable(
  space: Pick<SpaceOfPacks, 'nodes'>,
  hashes: readonly string[],
): readonly string[] {
  return hashes.filter((hash) => {
    const node = space.nodes.get(hash);
    return node?.state === 'ready' && node.bytes === 'good' && getPoolNode(hash).isValid;
  });
}
