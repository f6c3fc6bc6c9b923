/**
 * A deployment with rows of every kind and state, made through the API of a server of any engine, and everything the API
 * answers about it, to be compared with what another deployment answers.
 */
import { expect } from 'bun:test';
import { type CanonicalNode, makeNode, seededBytes, sha256Hex } from './canonical-node.ts';
import type { SpaceClient } from './space-client.ts';

/** A client of a Space, of the domain of its root refs. */
export type ClientOf = (spaceId: string, refDomain?: string) => SpaceClient;

const SPACES = ['space', 'ä/💾 %2F', '..x'] as const;
const DOMAINS = ['test', 'app:drafts'] as const;
const [HOME] = SPACES;

const HOUR_MS = 3_600_000;
/** so long that it still runs in a deployment that was filled two hours ago */
const LEASE_MS = 6 * HOUR_MS;
const INLINE_BYTES = 900;
const FILE_BYTES = 300_000;
const LARGE_BYTES = 5 * 1024 * 1024 + 17;
/** any text of 1 to 256 characters is a request id */
const REQUEST_IDS = ['first', 'nul\u0000inside', '\u0000', '💾'.repeat(256), 'a"b\\c\n', 'last'] as const;
const PAGE = 2;

type Changes = Readonly<Record<string, number>>;

interface Commit {
  readonly spaceId: string;
  readonly domain: string;
  readonly requestId: string;
  readonly changes: Changes;
}

/** With what the next lease answers. */
export interface ZooUploads {
  /** never PUT */
  readonly open: CanonicalNode;
  /** PUT, acknowledged, not leased since; a row or an object */
  readonly finished: readonly CanonicalNode[];
  /** PUT with other bytes, not leased since */
  readonly wrong: CanonicalNode;
  /** the same, and turned down by a lease */
  readonly rejected: CanonicalNode;
}

export interface Zoo {
  /** every hash there is anything to know of, by Space */
  readonly hashes: ReadonlyMap<string, readonly string[]>;
  readonly commits: readonly Commit[];
  /** taken in the middle of walks, with commits after them */
  readonly cursors: readonly { readonly spaceId: string; readonly domain: string; readonly query: string }[];
  /** with what the next lease answers, by the upload's state */
  readonly uploads: ZooUploads;
  readonly nodes: {
    readonly small: CanonicalNode;
    readonly file: CanonicalNode;
    readonly large: CanonicalNode;
    readonly lone: CanonicalNode;
    readonly parent: CanonicalNode;
    readonly waiting: CanonicalNode;
    /** rotten once `spoil` has seen to it, and read: an object, and where the engine keeps small nodes as rows a row */
    readonly rotten: readonly CanonicalNode[];
    /** what `waiting` waits for */
    readonly missing: CanonicalNode;
  };
}

/** `seed`: deployments of other seeds share no node. */
export async function fillZoo(clientOf: ClientOf, seed: number): Promise<Zoo> {
  const bytes = (length: number, index: number): Uint8Array => seededBytes(length, seed * 1_000 + index);
  const small = makeNode(bytes(INLINE_BYTES, 1));
  const file = makeNode(bytes(FILE_BYTES, 2), { contentType: 'image/png' });
  const large = makeNode(bytes(LARGE_BYTES, 3));
  const lone = makeNode(bytes(40_000, 4));
  const empty = makeNode(new Uint8Array(0), { contentType: `text/plain; seed=${seed}` });
  const rotten = [makeNode(bytes(FILE_BYTES, 6)), makeNode(bytes(INLINE_BYTES, 7))];
  const missing = makeNode(bytes(100, 5));
  const parent = makeNode('parent', { refs: [small.hash, file.hash, small.hash, empty.hash] });
  const waiting = makeNode(`waiting ${seed}`, { refs: [missing.hash, file.hash, missing.hash] });
  const home = clientOf(HOME);
  for (const node of [small, file, large, empty, parent, ...rotten]) await home.store(node, LEASE_MS);
  await home.store(lone, HOUR_MS);
  const state = (await home.store(waiting)).json.state;
  expect(state).toBe('validated_awaiting_children');

  const others = await fillOthers(clientOf, seed);
  const { commits, cursors } = await fillRootRefs(clientOf, [small, file, large, parent]);
  const uploads = await fillUploads(home, seed);
  const of = (nodes: readonly CanonicalNode[]): string[] => nodes.map(({ hash }) => hash);
  return {
    hashes: new Map([
      [
        HOME,
        of([
          small,
          file,
          large,
          lone,
          empty,
          parent,
          ...rotten,
          waiting,
          missing,
          uploads.open,
          ...uploads.finished,
        ]),
      ],
      ...others,
    ]),
    ...{ commits, cursors, uploads },
    nodes: { small, file, large, lone, parent, rotten, waiting, missing },
  };
}

/** Spaces whose names try what names may be, one with more rows than a page. */
async function fillOthers(clientOf: ClientOf, seed: number): Promise<(readonly [string, string[]])[]> {
  const filled: (readonly [string, string[]])[] = [];
  for (const [index, spaceId] of SPACES.slice(1).entries()) {
    const count = index === 0 ? 40 : 1;
    const nodes = Array.from({ length: count }, (_, at) => makeNode(seededBytes(50 + at * 900, seed + at)));
    const client = clientOf(spaceId);
    await Promise.all(nodes.map((node) => client.store(node, LEASE_MS)));
    filled.push([spaceId, nodes.map(({ hash }) => hash)]);
  }
  return filled;
}

async function fillRootRefs(clientOf: ClientOf, nodes: readonly CanonicalNode[]) {
  const [small, file, large, parent] = nodes.map(({ hash }) => hash) as [string, string, string, string];
  const commits: Commit[] = [];
  const commit = async (domain: string, requestId: string, changes: Changes): Promise<void> => {
    const answer = await clientOf(HOME, domain).commit(requestId, changes);
    expect([answer.status, answer.json]).toMatchObject([200, {}]);
    commits.push({ spaceId: HOME, domain, requestId, changes });
  };
  const [first, second, third, fourth, fifth, last] = REQUEST_IDS;
  const [main, drafts] = DOMAINS;
  await commit(main, first, { [small]: 2, [file]: 1, [large]: 1_000_000, [parent]: 1 });
  await commit(drafts, second, { [file]: 3, [parent]: 1 });
  const cursors = [];
  for (const domain of DOMAINS) {
    const limit = domain === main ? PAGE : 1;
    const page = await clientOf(HOME, domain).roots(`?limit=${limit}`);
    expect(page.json.nextCursor).not.toBeNull();
    const query = `?limit=${limit}&cursor=${encodeURIComponent(page.json.nextCursor)}`;
    cursors.push({ spaceId: HOME, domain, query });
  }
  // One balance below 0 where the aggregate is not, some superseded twice, some gone.
  await commit(main, third, { [file]: -2, [small]: -1, [parent]: -1 });
  await commit(drafts, fourth, { [parent]: -1, [file]: 0 });
  await commit(main, fifth, { [small]: 5, [large]: -1_000_000 });
  await commit(main, last, { [large]: 7 });
  return { commits, cursors };
}

/** `seed`: uploads of other seeds share no node. */
export async function fillUploads(client: SpaceClient, seed: number): Promise<ZooUploads> {
  const bytes = (length: number, index: number): Uint8Array => seededBytes(length, seed * 1_000 + index);
  const open = makeNode(bytes(500, 10));
  const finished = [makeNode(bytes(700, 11)), makeNode(bytes(FILE_BYTES, 12))];
  const wrong = makeNode(bytes(800, 13));
  const rejected = makeNode(bytes(900, 14));
  expect((await client.lease(open.hash)).json.state).toBe('awaiting_upload');
  const put = async (node: CanonicalNode, body: Uint8Array): Promise<void> => {
    const { json } = await client.lease(node.hash);
    expect((await client.put(json.upload, body)).status).toBe(200);
  };
  for (const node of finished) await put(node, node.bytes);
  await put(wrong, makeNode('something else').bytes);
  await put(rejected, makeNode('something else').bytes);
  expect((await client.lease(rejected.hash)).json.state).toBe('awaiting_replacement_upload');
  return { open, finished, wrong, rejected };
}

/** Everything the API answers that changes nothing. */
export async function describeZoo(clientOf: ClientOf, zoo: Zoo): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = {};
  for (const [spaceId, hashes] of zoo.hashes) {
    const client = clientOf(spaceId);
    answers[`usage of ${spaceId}`] = await client.usage();
    for (const hash of hashes) {
      const { status, json } = await client.metadata(hash);
      answers[`metadata of ${hash}`] = [status, json.error ?? json];
      answers[`content of ${hash}`] = await describeContent(client, hash);
      answers[`range of ${hash}`] = await describeContent(client, hash, 'bytes=7-300000');
    }
  }
  for (const domain of DOMAINS) {
    answers[`root refs of ${domain}`] = await walkRoots(clientOf(HOME, domain), '?limit=2');
  }
  for (const { spaceId, domain, query } of zoo.cursors) {
    answers[`old walk of ${domain}`] = await walkRoots(clientOf(spaceId, domain), query);
  }
  for (const { spaceId, domain, requestId, changes } of zoo.commits) {
    const client = clientOf(spaceId, domain);
    const name = JSON.stringify(requestId);
    const { status, json } = await client.commit(requestId, changes);
    answers[`replay of ${name}`] = [status, json];
    const other = await client.commit(requestId, { ...changes, [Object.keys(changes)[0] as string]: 99 });
    answers[`other payload under ${name}`] = [other.status, other.json.error];
  }
  return answers;
}

async function describeContent(client: SpaceClient, hash: string, range?: string): Promise<unknown[]> {
  const answer = await client.content(hash, range);
  const body = await answer.bytes();
  if (answer.status >= 400) return [answer.status, JSON.parse(new TextDecoder().decode(body)).error];
  const { headers, status } = answer;
  return [status, headers.get('content-type'), headers.get('content-range'), sha256Hex(body)];
}

async function walkRoots(client: SpaceClient, query: string): Promise<unknown[]> {
  const pages: unknown[] = [];
  for (let next: string | undefined = query; next !== undefined; ) {
    const { status, json } = await client.roots(next);
    pages.push([status, json]);
    const cursor = json.nextCursor;
    next = cursor ? `?limit=2&cursor=${encodeURIComponent(cursor)}` : undefined;
  }
  return pages;
}

/** The answers of leases for unfinished uploads and waiting parents, then a collection; all of these change rows. */
export async function finishZoo(
  clientOf: ClientOf,
  zoo: Zoo,
  fresh: ZooUploads,
): Promise<Record<string, unknown>> {
  const client = clientOf(HOME);
  const answers: Record<string, unknown> = {};
  const lease = async (name: string, { hash }: CanonicalNode): Promise<void> => {
    const { status, json } = await client.lease(hash, HOUR_MS);
    answers[`lease of ${name}`] = [status, json.state, json.rejection, json.childHashes];
  };
  for (const [when, uploads] of Object.entries({ '': zoo.uploads, ', fresh': fresh })) {
    await lease(`open${when}`, uploads.open);
    for (const [at, node] of uploads.finished.entries()) await lease(`finished ${at}${when}`, node);
    await lease(`wrong${when}`, uploads.wrong);
    await lease(`rejected${when}`, uploads.rejected);
  }
  await lease('waiting', zoo.nodes.waiting);
  await client.store(zoo.nodes.missing, HOUR_MS);
  await lease('waiting, its child here', zoo.nodes.waiting);
  answers.collection = (await client.gc()).json;
  answers['usage after all'] = await client.usage();
  return answers;
}
