/** Clients at work on few hashes of one Space at the same time: commits, some sent again, lists, leases, reads and collections. */
import { type CanonicalNode, makeNode } from '../../test/support/canonical-node.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import type { SpaceClient } from '../../test/support/space-client.ts';
import type { Commit, Conflict, History, Lease, List } from './history.ts';

const CLIENTS = 12;
const NODES = 6;
const HOUR_MS = 3_600_000;
const NODES_OF_A_PAGE = 2;
const AWAY_MS = 20;
/** A server that is started again answers long before. */
const TRIES_MAX = 3_000;

/** The server or its answer is away: nothing is known of the request. */
class Away extends Error {}

export class Recorder implements History {
  readonly commits: Commit[] = [];
  readonly conflicts: Conflict[] = [];
  readonly lists: List[] = [];
  readonly leases: Lease[] = [];
  readonly wrong: string[] = [];
  readonly #client: SpaceClient;
  readonly #random: SeededRandom;
  readonly #nodes: readonly CanonicalNode[];
  readonly #steps: readonly (() => Promise<void>)[];
  #clock = 0;

  /** `commits`: for each of the other requests */
  constructor(client: SpaceClient, random: SeededRandom, commits: number) {
    this.#client = client;
    this.#random = random;
    const others = [this.#list, this.#lease, this.#read, this.#collect];
    this.#steps = [...Array.from({ length: commits * others.length }, () => this.#commit), ...others];
    this.#nodes = Array.from({ length: NODES }, (_, index) => makeNode(`node ${index}`));
  }

  /** Before all work, and before any kill. */
  async store(): Promise<void> {
    for (const node of this.#nodes) await this.#client.store(node, HOUR_MS);
  }

  /** `operations`: of all clients together */
  async work(operations: number): Promise<void> {
    const goal = operations / CLIENTS;
    const client = async (): Promise<void> => {
      for (let done = 0; done < goal; done += 1) await this.#step();
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    // One that was not answered, also after a refusal, may have been made: it is sent again until it is answered.
    for (const commit of this.commits)
      if (commit.end === undefined) await this.#until(() => this.#send(commit));
    await this.#until(() => this.#list());
  }

  async #step(): Promise<void> {
    try {
      await this.#random.pick(this.#steps)?.call(this);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      await Bun.sleep(AWAY_MS);
    }
  }

  async #until(step: () => Promise<void>): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof Away)) throw error;
        await Bun.sleep(AWAY_MS);
      }
    }
    throw new Error('no server answers');
  }

  #tick(): number {
    this.#clock += 1;
    return this.#clock;
  }

  /** @throws Away */
  async #ask<T extends { readonly status: number }>(request: () => Promise<T>): Promise<T> {
    let answer: T;
    try {
      answer = await request();
    } catch (error) {
      throw new Away(String(error));
    }
    if (answer.status === 503 || answer.status === 429) throw new Away();
    return answer;
  }

  #pick(): CanonicalNode {
    return this.#random.pick(this.#nodes) as CanonicalNode;
  }

  async #commit(): Promise<void> {
    const known = this.#random.chance(0.2) ? this.#random.pick(this.commits) : undefined;
    if (known !== undefined) return this.#random.chance(0.3) ? this.#sendOther(known) : this.#send(known);
    const changes = new Map<string, number>();
    for (let count = 1 + this.#random.below(3); count > 0; count -= 1)
      changes.set(
        this.#pick().hash,
        this.#random.chance(0.5) ? 1 + this.#random.below(2) : -1 - this.#random.below(2),
      );
    const commit: Commit = {
      requestId: `request-${this.commits.length}`,
      changes,
      start: this.#tick(),
      revisions: new Set(),
    };
    this.commits.push(commit);
    await this.#send(commit);
  }

  async #send(commit: Commit): Promise<void> {
    const { requestId, changes } = commit;
    const start = this.#tick();
    const wasMade = commit.revisions.size > 0;
    const { status, json } = await this.#ask(() =>
      this.#client.commit(requestId, Object.fromEntries(changes)),
    );
    const end = this.#tick();
    if (status === 200) {
      commit.revisions.add(json.revision);
      if (wasMade && json.idempotent !== true) this.wrong.push(`${requestId} was made again`);
      commit.end ??= end;
    } else if (status === 409 && !wasMade) this.conflicts.push({ commit, start, end });
    else this.wrong.push(`${requestId} is answered ${status} ${JSON.stringify(json)}`);
  }

  /** The same name with other changes. */
  async #sendOther(commit: Commit): Promise<void> {
    if (commit.revisions.size === 0) return;
    const changes = { [this.#pick().hash]: 77 };
    const { status, json } = await this.#ask(() => this.#client.commit(commit.requestId, changes));
    if (status !== 409 || json.error !== 'IDEMPOTENCY_CONFLICT')
      this.wrong.push(`${commit.requestId} with other changes is answered ${status}`);
  }

  async #list(): Promise<void> {
    const start = this.#tick();
    const [revisions, balances] = [new Set<number>(), new Map<string, number>()];
    let cursor: string | null | undefined;
    do {
      const query = `?limit=${NODES_OF_A_PAGE}${cursor == null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
      const { status, json } = await this.#ask(() => this.#client.roots(query));
      if (status !== 200) {
        this.wrong.push(`a list is answered ${status}`);
        return;
      }
      revisions.add(json.revision);
      for (const { hash, refCount } of json.items) balances.set(hash, refCount);
      cursor = json.nextCursor;
    } while (cursor !== null);
    this.lists.push({ start, end: this.#tick(), revisions, balances });
  }

  async #lease(): Promise<void> {
    const { hash } = this.#pick();
    const start = this.#tick();
    const { status, json } = await this.#ask(() => this.#client.lease(hash, HOUR_MS));
    if (status !== 200 || json.state !== 'ready')
      this.wrong.push(`the leased ${hash} is ${status} ${json.state}`);
    else this.leases.push({ hash, start, end: this.#tick(), leaseExpiresAt: json.leaseExpiresAt });
  }

  async #read(): Promise<void> {
    const { hash, content } = this.#pick();
    const answer = await this.#ask(async () => {
      const response = await this.#client.content(hash);
      return { status: response.status, bytes: await response.bytes() };
    });
    if (answer.status !== 200 || Buffer.compare(answer.bytes, content) !== 0)
      this.wrong.push(`the leased ${hash} is read as ${answer.status}, ${answer.bytes.length} bytes`);
  }

  async #collect(): Promise<void> {
    const { status } = await this.#ask(() => this.#client.gc(NODES));
    if (status !== 200) this.wrong.push(`a collection is answered ${status}`);
  }
}
