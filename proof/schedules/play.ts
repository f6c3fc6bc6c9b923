/** One schedule: a Space of its own, what was acknowledged in it, and what must therefore hold. */
import { ApiError, type Hash, type LeaseResponse, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { Core } from '../../packages/server/core/core.ts';
import { leaseNode } from '../../packages/server/core/lease/lease-node.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { receiveUpload } from '../../packages/server/core/packs/receive-upload.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import type { CanonicalNode } from '../../test/support/canonical-node.ts';
import { CALLER, MINUTE_MS } from '../row-rot/world.ts';
import type { ScheduleWorld } from './world.ts';

export const ORIGIN = 'http://127.0.0.1:1';
export const DOMAINS = ['main', 'side'] as const;
type Domain = (typeof DOMAINS)[number];
type Upload = Extract<LeaseResponse, { upload: unknown }>['upload'];

/** of one storage: `target` is what operations meet on; `siblings` lie in its pack; `parent` names it twice */
export interface Cast {
  readonly target: CanonicalNode;
  readonly siblings: readonly CanonicalNode[];
  readonly parent: CanonicalNode;
}

interface Commit {
  readonly domain: Domain;
  readonly requestId: string;
  readonly changes: readonly { readonly hash: Hash; readonly delta: number }[];
  readonly revision: number;
}

/** statuses; a function is asked after the refusal */
type Refusals = readonly number[] | (() => readonly number[]);

export class Play {
  readonly world: ScheduleWorld;
  readonly space: Space;
  readonly cast: Cast;
  /** one line for each thing that must not be */
  readonly wrong: string[] = [];
  /** Nodes whose bytes were taken: until they are uploaded again, nothing is promised of them. */
  readonly lost = new Set<Hash>();
  /** what the scene left open, for PUTs that come late */
  openUpload: Upload | undefined;
  /** the PUT of the target was acknowledged, and no time has passed nor a purge since */
  isAccepted = false;
  /** the wall clock was set: collection may wait */
  isClockSet = false;
  #leases = new Map<Hash, number>();
  #balances = new Map<string, number>();
  #ready = new Set<Hash>();
  #commits: Commit[] = [];
  #requests = 0;
  /** how many purges have run: what was under way meanwhile is not promised */
  #purges = 0;
  #purging = 0;

  constructor(world: ScheduleWorld, space: Space, cast: Cast) {
    this.world = world;
    this.space = space;
    this.cast = cast;
  }

  get nodes(): readonly CanonicalNode[] {
    return [this.cast.target, ...this.cast.siblings, this.cast.parent];
  }

  /** A purge begins: until it has ended, nothing is promised. */
  beginPurge(): void {
    this.#purging += 1;
  }

  endPurge(): void {
    this.#purging -= 1;
    this.#purges += 1;
    this.isAccepted = false;
    this.#leases.clear();
    this.#balances.clear();
    this.#ready.clear();
    this.#commits = [];
  }

  /** Runs a request. A refusal with one of `allowed` is no fault, and resolves `undefined`. */
  async ask<T>(what: string, allowed: Refusals, request: () => Promise<T> | T): Promise<T | undefined> {
    const purges = this.#purges;
    const isQuiet = (): boolean => purges === this.#purges && this.#purging === 0;
    try {
      const answer = await request();
      // What was answered to a request that a purge went by is promised to nobody.
      return isQuiet() ? answer : undefined;
    } catch (error) {
      const known = typeof allowed === 'function' ? allowed() : allowed;
      const isRefusal =
        (error instanceof ApiError && (known.includes(error.status) || !isQuiet())) ||
        (this.isClockSet && error instanceof Error && error.name === 'ClocksDisagree');
      if (!isRefusal)
        this.wrong.push(`${what} fails: ${error instanceof Error ? error.stack : String(error)}`);
      return undefined;
    }
  }

  async lease(core: Core, node: CanonicalNode, durationMs = MINUTE_MS): Promise<LeaseResponse | undefined> {
    const { space } = this;
    const askedAt = this.world.clock.now;
    const answer = await this.ask('a lease', [], () =>
      leaseNode(core, space, node.hash, durationMs, () => ORIGIN),
    );
    if (answer?.state === 'ready') this.noteLease(node.hash, askedAt + durationMs);
    return answer;
  }

  /** `until`: by what really elapses */
  noteLease(hash: Hash, until: number): void {
    this.#leases.set(hash, Math.max(this.#leases.get(hash) ?? 0, until));
    this.#ready.add(hash);
  }

  /** Resolves whether it was acknowledged. */
  async put(core: Core, url: string, bytes: Uint8Array, contentType = NODE_MEDIA_TYPE): Promise<boolean> {
    const { direct } = this.world;
    const sent = await this.ask('a PUT', [403, 404, 409, 412], async () => {
      if (direct !== undefined) return direct.put(url, bytes) === 200;
      await receiveUpload(core, {
        token: url.slice(`${ORIGIN}/uploads/`.length),
        ...{ contentType, ifNoneMatch: '*', declaredLength: bytes.length },
        body: new Response(bytes.slice()).body,
      });
      return true;
    });
    return sent ?? false;
  }

  /** Lease, PUT, lease. */
  async upload(core: Core, node: CanonicalNode, durationMs = MINUTE_MS): Promise<void> {
    const asked = await this.lease(core, node, durationMs);
    if (asked === undefined || !('upload' in asked)) return;
    const isSent = await this.put(core, asked.upload.url, node.bytes);
    const answer = await this.lease(core, node, durationMs);
    if (isSent && answer?.state === 'ready') this.lost.delete(node.hash);
  }

  async commit(core: Core, domain: Domain, node: CanonicalNode, delta: number): Promise<void> {
    this.#requests += 1;
    const requestId = `request-${this.#requests}`;
    const changes = [{ hash: node.hash, delta }];
    const wasHeld = this.isHeld(node);
    const key = `${domain} ${node.hash}`;
    const mayFail = (): boolean =>
      !wasHeld || !this.isHeld(node) || this.lost.has(node.hash) || this.#of(key) + delta < 0;
    const answer = await this.ask(
      'a commit',
      () => (mayFail() ? [404, 409] : []),
      () => updateRootRefs(core, this.space, domain, { requestId, changes }),
    );
    if (answer === undefined) return;
    this.#balances.set(key, this.#of(key) + delta);
    this.#ready.add(node.hash);
    this.#commits.push({ domain, requestId, changes, revision: answer.revision });
  }

  #of(key: string): number {
    return this.#balances.get(key) ?? 0;
  }

  isHeld(node: CanonicalNode): boolean {
    const { hash } = node;
    const isLeased = (this.#leases.get(hash) ?? 0) > this.world.clock.now;
    const isRooted = DOMAINS.some((domain) => this.#of(`${domain} ${hash}`) > 0);
    return isLeased || isRooted || this.#hasHeldParent(hash);
  }

  #hasHeldParent(hash: Hash): boolean {
    const { parent } = this.cast;
    return parent.refs.includes(hash) && this.#ready.has(parent.hash) && this.isHeld(parent);
  }

  /** Reads a node. It may be absent unless it was held before and after. */
  async read(core: Core, node: CanonicalNode, when: string): Promise<void> {
    const wasHeld = this.isHeld(node);
    const { hash } = node;
    const gone = wasHeld ? [] : [404];
    const allowed = this.lost.has(hash) ? [404, 503] : gone;
    await this.#refusedUnlessHeld(node, allowed, `${when}: the metadata of ${hash}`, async () => {
      const { metadata } = await readMetadata(core, this.space, hash);
      const isRight =
        metadata.size === node.content.length &&
        metadata.contentType === node.contentType &&
        metadata.refs.join() === node.refs.join();
      if (!isRight) this.wrong.push(`${when}: the metadata of ${hash} is wrong`);
    });
    await this.#refusedUnlessHeld(node, allowed, `${when}: the content of ${hash}`, async () => {
      const { body } = await readContent(core, this.space, hash, undefined, CALLER);
      const bytes = body instanceof Uint8Array ? body : new Uint8Array(await body.arrayBuffer());
      if (Buffer.compare(bytes, node.content) !== 0)
        this.wrong.push(`${when}: the content of ${hash} is wrong`);
    });
  }

  /** A lease that ended during the read protects no more. */
  async #refusedUnlessHeld(
    node: CanonicalNode,
    allowed: readonly number[],
    what: string,
    request: () => Promise<void>,
  ): Promise<void> {
    await this.ask(what, allowed, async () => {
      try {
        await request();
      } catch (error) {
        if (error instanceof ApiError && error.status === 404 && !this.isHeld(node)) return;
        throw error;
      }
    });
  }

  /** Nothing acknowledged is lost: leases, root refs, commits, an accepted upload. */
  async verify(core: Core): Promise<void> {
    for (const node of this.nodes) await this.read(core, node, 'afterwards');
    await this.repeatCommits(core);
    if (this.#purges === 0) await this.#verifyBalances(core);
    if (!this.isAccepted) return;
    const answer = await this.lease(core, this.cast.target);
    if (answer !== undefined && 'upload' in answer)
      this.wrong.push('an acknowledged upload is asked for again');
  }

  async repeatCommits(core: Core): Promise<void> {
    for (const { domain, requestId, changes, revision } of this.#commits) {
      const again = await this.ask('a commit sent again', [], () =>
        updateRootRefs(core, this.space, domain, { requestId, changes }),
      );
      if (again !== undefined && (!again.idempotent || again.revision !== revision))
        this.wrong.push(`${requestId} of ${domain} was made again`);
    }
  }

  async #verifyBalances(core: Core): Promise<void> {
    for (const domain of DOMAINS) {
      const { items, revision } = await listRootRefs(core, this.space, domain, { limit: 100 });
      const kept = items.map(({ hash, refCount }) => `${hash} ${refCount}`).sort();
      const known = this.nodes
        .map(({ hash }) => [hash, this.#of(`${domain} ${hash}`)] as const)
        .filter(([, balance]) => balance !== 0);
      if (
        kept.join() !==
        known
          .map((entry) => entry.join(' '))
          .sort()
          .join()
      )
        this.wrong.push(`the root refs of ${domain} are ${kept.join()}`);
      const latest = Math.max(
        0,
        ...this.#commits.filter((each) => each.domain === domain).map((each) => each.revision),
      );
      if (revision !== latest)
        this.wrong.push(`${domain} is at revision ${revision}, ${latest} was the last`);
    }
  }
}
