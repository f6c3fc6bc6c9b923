/** The real server at work, killed, started again, ended: what it acknowledged, and when. */
import { join } from 'node:path';
import { type CanonicalNode, makeNode, seededBytes } from '../../test/support/canonical-node.ts';
import { type Issuer, makeIssuer } from '../../test/support/issuer.ts';
import { makePack, packed, plain } from '../../test/support/planted-pack.ts';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import { REQUEST_HEADER } from './disk-steps.ts';
import { TracedRun, type TracedServer } from './traced-run.ts';

export const DATA = join('volume', 'holdfast', 'data');
const HOUR_MS = 3_600_000;
/** Leases of the first server have run out for the second. */
const LATER_MS = 2 * HOUR_MS;
const UPLOADERS = 3;
const PACK_NODES = 6;
const LARGE_BYTES_MAX = 40_000;
const RELEASED_OF = 4;

/** by the name of its request */
interface Acknowledged {
  readonly id: string;
}

export interface KnownCommit {
  readonly requestId: string;
  readonly changes: ReadonlyMap<string, number>;
  /** undefined: sent, and the server was killed */
  answer?: Acknowledged & { readonly revision: number };
}

interface ServeFacts {
  readonly ready: (Acknowledged & { readonly node: CanonicalNode; readonly server: number })[];
  readonly put: (Acknowledged & { readonly node: CanonicalNode; readonly server: number })[];
  readonly packs: (Acknowledged & {
    readonly pack: string;
    readonly nodes: readonly CanonicalNode[];
    readonly server: number;
  })[];
  readonly commits: KnownCommit[];
  /** lines: where each server begins, and how far its clock is ahead, ms */
  readonly servers: { readonly from: number; readonly offsetMs: number }[];
  /** the line at which the App was acknowledged */
  appFrom: number;
}

export interface ServeScenario {
  readonly run: TracedRun;
  readonly facts: ServeFacts;
  readonly issuer: Issuer;
}

/** `commits`: how many each server acknowledges before it ends. */
export async function runServeScenario(seed: number, commits: number): Promise<ServeScenario> {
  const run = new TracedRun();
  const facts: ServeFacts = { ready: [], put: [], packs: [], commits: [], servers: [], appFrom: 0 };
  const issuer = makeIssuer();
  const data = join(run.root, DATA);
  const random = makeRandom(seed);
  try {
    // It makes the folder, and is killed meanwhile.
    await run.runKilled(['serve', '--listen', '127.0.0.1:0', '--data', data], random);
    await run.endServer(await run.serve(data, 0), 'SIGKILL');
    issuer.writeKeySet(run.beside('keys.json'));
    facts.appFrom = await run.runWell([
      ...['app', 'add', 'app', '--issuer', issuer.issuer, '--audience', issuer.audience],
      ...['--jwks-file', run.beside('keys.json'), '--data', data],
    ]);
    for (const [number, signal] of (['SIGKILL', 'SIGTERM', 'SIGKILL'] as const).entries()) {
      const offsetMs = number * LATER_MS;
      facts.servers.push({ from: run.now, offsetMs });
      const server = await run.serve(data, offsetMs);
      await new Lanes({ run, facts, issuer, random, server, number, offsetMs }).work(commits);
      await run.endServer(server, signal);
    }
    return { run, facts, issuer };
  } catch (error) {
    run.remove();
    throw error;
  }
}

interface LanesOptions extends ServeScenario {
  readonly random: SeededRandom;
  readonly server: TracedServer;
  /** of the servers */
  readonly number: number;
  readonly offsetMs: number;
}

interface Answer extends Acknowledged {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a scenario reads fields of answers
  readonly json: any;
}

class Lanes {
  readonly #options: LanesOptions;
  readonly #token: string;
  #made = 0;
  #sent = 0;
  #isOver = false;

  constructor(options: LanesOptions) {
    this.#options = options;
    const iat = Math.floor((Date.now() + options.offsetMs) / 1000);
    this.#token = options.issuer.token('space', { iat, exp: iat + 3600 });
  }

  /** Ends with requests under way. */
  async work(commits: number): Promise<void> {
    const { facts, number } = this.#options;
    if (number > 0) await this.#resend();
    if (number > 0) await this.#ask('POST', '/cas/gc', { maxNodes: 1000 });
    const answered = (): number => facts.commits.filter(({ answer }) => answer !== undefined).length;
    const goal = answered() + commits;
    const lanes = [...Array.from({ length: UPLOADERS }, () => this.#upload), this.#pack, this.#commit];
    const working = lanes.map(async (step) => {
      while (!this.#isOver) await step.call(this);
    });
    const failed = Promise.all(working);
    void failed.catch(() => undefined);
    while (answered() < goal) await Promise.race([Bun.sleep(5), failed]);
    this.#isOver = true;
    // In the last of them the server is ended under their hands; what it does not answer has no part in the facts.
    if (number === 1) await failed;
  }

  async #send(
    method: string,
    url: string,
    init: Pick<RequestInit, 'body'> & { headers: Record<string, string> },
  ): Promise<Answer> {
    try {
      this.#sent += 1;
      const id = `${this.#options.number}-${this.#sent}`;
      const headers = { ...init.headers, [REQUEST_HEADER]: id };
      const response = await fetch(url, { ...init, headers, method, keepalive: false });
      return { id, status: response.status, json: await response.json().catch(() => undefined) };
    } catch (error) {
      if (!this.#isOver) throw error;
      // The server was killed.
      return new Promise(() => undefined);
    }
  }

  #ask(method: string, path: string, body?: unknown, api = ''): Promise<Answer> {
    const url = `${this.#options.server.server.url}${api}/v1/apps/app/spaces/space${path}`;
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    return this.#send(method, url, {
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  #put(
    { url, headers }: { url: string; headers: Record<string, string> },
    bytes: Uint8Array,
  ): Promise<Answer> {
    return this.#send('PUT', url, { headers, body: bytes.slice() });
  }

  #makeNode(refs: readonly string[] = []): CanonicalNode {
    const { random, number } = this.#options;
    this.#made += 1;
    const size = random.chance(0.3) ? random.below(LARGE_BYTES_MAX) : random.below(500);
    return makeNode(Buffer.concat([Buffer.from(`${number} ${this.#made} `), seededBytes(size, this.#made)]), {
      refs,
    });
  }

  /** nodes that this server said to be ready, so that their leases hold */
  #ready(): CanonicalNode[] {
    const { facts, number } = this.#options;
    return facts.ready.filter(({ server }) => server === number).map(({ node }) => node);
  }

  async #upload(): Promise<void> {
    const { facts, random, number: server } = this.#options;
    const child = random.pick(this.#ready());
    const node = this.#makeNode(child !== undefined && random.chance(0.4) ? [child.hash] : []);
    const lease = () => this.#ask('POST', `/cas/nodes/${node.hash}/lease`, { leaseDurationMs: HOUR_MS });
    const first = await lease();
    expectStatus(first);
    const put = await this.#put(first.json.upload, node.bytes);
    expectStatus(put);
    facts.put.push({ id: put.id, node, server });
    if (random.chance(0.2)) return;
    const second = await lease();
    expectStatus(second);
    if (second.json.state === 'ready') facts.ready.push({ id: second.id, node, server });
  }

  async #pack(): Promise<void> {
    const { facts, random, number: server } = this.#options;
    const nodes = Array.from({ length: PACK_NODES }, () => this.#makeNode());
    const hashes = nodes.map(({ hash }) => hash);
    const opened = await this.#ask(
      'POST',
      '/leases',
      { leaseDurationMs: HOUR_MS, hashes, pack: true },
      '/bulk',
    );
    expectStatus(opened);
    const { pack } = opened.json;
    const put = await this.#put(pack, makePack(nodes.map(random.chance(0.5) ? packed : plain)));
    expectStatus(put);
    facts.packs.push({ id: put.id, pack: pack.id, nodes, server });
    if (random.chance(0.2)) return;
    const leased = await this.#ask('POST', `/packs/${pack.id}/lease`, { leaseDurationMs: HOUR_MS }, '/bulk');
    expectStatus(leased);
    for (const node of nodes) facts.ready.push({ id: leased.id, node, server });
  }

  async #commit(): Promise<void> {
    const { facts, random } = this.#options;
    const node = random.pick(this.#ready());
    if (node === undefined) return Bun.sleep(2);
    const balances = balancesOf(facts.commits);
    const rooted = random.pick([...balances].filter(([, balance]) => balance > 0));
    const changes = new Map([[node.hash, 1]]);
    const isReleased = rooted !== undefined && rooted[0] !== node.hash && random.below(RELEASED_OF) === 0;
    if (isReleased) changes.set(rooted[0], -rooted[1]);
    const commit: KnownCommit = { requestId: `request-${facts.commits.length}`, changes };
    facts.commits.push(commit);
    await this.#sendCommit(commit);
  }

  async #sendCommit(commit: KnownCommit): Promise<boolean> {
    const body = { requestId: commit.requestId, changes: Object.fromEntries(commit.changes) };
    const answer = await this.#ask('POST', '/root-refs', body);
    if (answer.status === 200) commit.answer = { id: answer.id, revision: answer.json.revision };
    return answer.status === 200;
  }

  /** A commit that was not answered may have been applied; if not, its nodes may have gone. */
  async #resend(): Promise<void> {
    const last = this.#options.facts.commits.at(-1);
    if (last === undefined || last.answer !== undefined) return;
    if (!(await this.#sendCommit(last))) this.#options.facts.commits.pop();
  }
}

function expectStatus({ status, json }: Answer): void {
  if (status !== 200) throw new Error(`the server answered ${status}: ${JSON.stringify(json)}`);
}

export function balancesOf(commits: readonly KnownCommit[]): Map<string, number> {
  const balances = new Map<string, number>();
  for (const { changes } of commits)
    for (const [hash, delta] of changes) balances.set(hash, (balances.get(hash) ?? 0) + delta);
  return balances;
}
