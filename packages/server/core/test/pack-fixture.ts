/** A client of Bulk over a `CoreWorld`, with either kind of upload. */
import { afterEach, beforeEach } from 'bun:test';
import {
  type BulkLeaseResponse,
  PACK_MEDIA_TYPE,
  type PackInstruction,
  type PackLeaseResponse,
} from '@holdfast/protocol';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { nextTurn } from '../../../../test/support/embedded-files.ts';
import { makePack, type PlantedRecord, plain, takeApart } from '../../../../test/support/planted-pack.ts';
import type { Core, CoreSettings } from '../core.ts';
import type { ContentRow, PackPlace } from '../model.ts';
import type { PackRow } from '../pack-model.ts';
import type { PackStore, PackVerbs } from '../pack-ports.ts';
import { leaseNodes } from '../packs/lease-nodes.ts';
import { leasePack } from '../packs/lease-pack.ts';
import { receiveUpload } from '../packs/receive-upload.ts';
import type { SpaceTransaction } from '../ports.ts';
import { readNodes } from '../read/read-nodes.ts';
import { CoreWorld, failureOf, MINUTE_MS, ORIGIN, SPACE, smallNode } from './core-fixture.ts';

interface LeaseWanted {
  readonly pack?: boolean;
  readonly durationMs?: number;
}

/** For `describe.each`: who receives packs. The second says whether a store does, by URLs of its own. */
export const PACK_RECEIVERS = [
  ['the server receives', false],
  ['the store receives', true],
] as const;

/** Opens a world for each test of the block, gives it to `use`, and closes it. */
export function usePackWorld(
  isDirect: boolean,
  use: (world: CoreWorld, client: PackClient) => void,
  settings: Partial<CoreSettings> = {},
): void {
  let world: CoreWorld;
  beforeEach(async () => {
    world = await CoreWorld.open(settings, { isDirect });
    use(world, new PackClient(world, isDirect));
  });
  afterEach(() => world.close());
}

export class PackClient {
  readonly #world: CoreWorld;
  readonly #isDirect: boolean;

  constructor(world: CoreWorld, isDirect: boolean) {
    this.#world = world;
    this.#isDirect = isDirect;
  }

  get #core(): Core {
    return this.#world.core;
  }

  leases(nodes: readonly CanonicalNode[], wanted: LeaseWanted = {}): Promise<BulkLeaseResponse> {
    const { pack = false, durationMs = MINUTE_MS } = wanted;
    const hashes = nodes.map(({ hash }) => hash);
    const options = { renewsOnly: false, uploadOrigin: ORIGIN };
    return leaseNodes(this.#core, SPACE, { hashes, pack, leaseDurationMs: durationMs }, options);
  }

  /** A pack for these nodes, of which one is absent at least. */
  async open(nodes: readonly CanonicalNode[]): Promise<PackInstruction> {
    const { pack } = await this.leases(nodes, { pack: true });
    if (pack === undefined) throw new Error('no pack was opened');
    return pack;
  }

  /** Resolves with the status. */
  async put(pack: PackInstruction, bytes: Uint8Array, headers: Record<string, string> = {}): Promise<number> {
    if (this.#isDirect) return this.#world.direct.put(pack.url, bytes);
    const sent = { ...pack.headers, ...headers };
    const receiving = receiveUpload(this.#core, {
      token: pack.url.slice(`${ORIGIN}/uploads/`.length),
      contentType: sent['content-type'],
      ifNoneMatch: sent['if-none-match'],
      declaredLength: bytes.length,
      body: new Response(bytes.slice()).body,
    });
    return receiving.then(
      () => 200,
      async () => (await failureOf(receiving)).status,
    );
  }

  lease(id: string, durationMs = MINUTE_MS, core = this.#core, space = SPACE): Promise<PackLeaseResponse> {
    return leasePack(core, space, id, durationMs, { renewsOnly: false });
  }

  /** Opens a pack, sends it and leases it: id and answer. */
  async send(
    nodes: readonly CanonicalNode[],
    records: readonly PlantedRecord[] = nodes.map(plain),
  ): Promise<PackLeaseResponse & { readonly id: string }> {
    const pack = await this.open(nodes);
    const status = await this.put(pack, makePack(records));
    if (status !== 200) throw new Error(`the PUT was answered ${status}`);
    return { id: pack.id, ...(await this.lease(pack.id)) };
  }

  async read(nodes: readonly CanonicalNode[], acceptsZstd = false): Promise<PlantedRecord[]> {
    const hashes = nodes.map(({ hash }) => hash);
    const pieces = await Array.fromAsync(readNodes(this.#core, SPACE, hashes, acceptsZstd));
    return takeApart(Buffer.concat(pieces.flat()));
  }

  pack(id: string): Promise<PackRow | undefined> {
    return Promise.resolve(this.#core.metadata.packs.findPack(SPACE, id));
  }

  async content(node: CanonicalNode): Promise<ContentRow | undefined> {
    return (await this.#core.metadata.findNodesWithContent(SPACE, [node.hash]))[0]?.content;
  }

  async place(node: CanonicalNode): Promise<PackPlace> {
    const place = (await this.content(node))?.packed;
    if (place === undefined) throw new Error('this node lies in no pack');
    return place;
  }

  async use(id: string) {
    const pack = await this.pack(id);
    if (pack === undefined) throw new Error('there is no such pack');
    const find = (tx: SpaceTransaction): ReturnType<PackVerbs['findUse']> =>
      tx.packs.findUse(pack.generation);
    return this.#core.metadata.transact(SPACE, find);
  }

  /** Flips one stored byte of a record, or takes the whole object away. */
  async spoil(node: CanonicalNode, how: 'flipped' | 'lost'): Promise<void> {
    const { pack: generation, offset } = await this.place(node);
    await nextTurn();
    this.#world.spoiler.spoil({ generation, isInline: false }, how, offset);
  }

  /** Puts back the object that holds the record. */
  async mend(node: CanonicalNode): Promise<void> {
    const { pack: generation } = await this.place(node);
    await nextTurn();
    this.#world.spoiler.restore({ generation, isInline: false });
  }
}

export const PACK_TYPE = PACK_MEDIA_TYPE;

export function statesOf({ results }: { readonly results: readonly { readonly state: string }[] }): string[] {
  return results.map(({ state }) => state);
}

/** The same core, with steps of its store of packs replaced. */
export function withPacks(core: Core, packs: Partial<PackStore>): Core {
  return { ...core, content: { ...core.content, packs: { ...core.content.packs, ...packs } } };
}

/** The same core, with verbs of its rows replaced. */
export function withRows(core: Core, rows: Partial<Core['metadata']>): Core {
  const metadata = new Proxy(core.metadata, {
    get(target, name) {
      const value: unknown = name in rows ? Reflect.get(rows, name) : Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { ...core, metadata };
}

/** The same core; `before` is awaited before each transaction of that body, told how many there were. */
export function beforeTransactions(core: Core, body: unknown, before: (earlier: number) => unknown): Core {
  let count = 0;
  return withRows(core, {
    async transact(...given) {
      if (given[1] === body) {
        const earlier = count;
        count += 1;
        await before(earlier);
      }
      return core.metadata.transact(...given);
    },
  });
}

/** So many small nodes, all different. */
export function manyNodes(count: number, seed = 0): CanonicalNode[] {
  return Array.from({ length: count }, (_, index) => smallNode(seed * 1_000_000 + index));
}
