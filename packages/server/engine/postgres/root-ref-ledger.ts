/**
 * Root-ref rows of one transaction: balances, their history, and the commits (docs/api.md, updateRootRefs). Several commits may
 * share the transaction: each sees those before it, and all are written set-based at the end.
 */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../core/invariant.ts';
import type { RootRefCommit, SpaceKey } from '../../core/model.ts';
import type { RootRefReads } from '../../core/ports.ts';
import {
  byteaToBytes,
  byteaToHex,
  byteaToText,
  bytesToBytea,
  hexToBytea,
  textToBytea,
} from './wire/sql-values.ts';
import type { Statement, TransactionWire } from './wire/transaction-wire.ts';

export interface BalanceChange {
  readonly hash: Hash;
  readonly before: number;
  readonly after: number;
}

interface Balance {
  readonly balance: number;
  readonly since: number;
}

interface Domain {
  locked: Promise<void>;
  /** the latest revision in the database; undefined: no commit yet, so no row */
  stored: number | undefined;
  revision: number;
  /** the commits that were looked for, by request id; undefined: there is none */
  readonly commits: Map<string, RootRefCommit | undefined>;
  readonly balances: Map<Hash, { stored: Balance | undefined; current: Balance | undefined }>;
}

interface Superseded extends Balance {
  readonly domain: string;
  readonly hash: Hash;
  readonly until: number;
}

export class RootRefLedger {
  readonly #wire: TransactionWire;
  readonly #space: SpaceKey;
  readonly #domains = new Map<string, Domain>();
  #commits: { readonly domain: string; readonly commit: RootRefCommit }[] = [];
  #history: Superseded[] = [];
  #changeCount = 0;

  constructor(wire: TransactionWire, space: SpaceKey) {
    this.#wire = wire;
    this.#space = space;
  }

  get changeCount(): number {
    return this.#changeCount;
  }

  /** Locks a domain's row before anything else of the domain is read, so commits of one domain run one after another. */
  #lock(domains: readonly string[]): Promise<unknown> {
    const unknown = [...new Set(domains)].filter((domain) => !this.#domains.has(domain)).sort();
    if (unknown.length > 0) {
      const made = unknown.map((domain): [string, Domain] => [
        domain,
        {
          locked: Promise.resolve(),
          stored: undefined,
          revision: 0,
          commits: new Map(),
          balances: new Map(),
        },
      ]);
      const locked = this.#wire.send('lockDomains', [this.#space, unknown]).then(({ rows }) => {
        for (const row of rows) {
          const state = this.#domain(row.domain as string);
          state.stored = row.revision as number;
          state.revision = state.stored;
        }
      });
      for (const [domain, state] of made) {
        state.locked = locked;
        this.#domains.set(domain, state);
      }
    }
    return Promise.all(domains.map((domain) => this.#domain(domain).locked));
  }

  #domain(domain: string): Domain {
    const state = this.#domains.get(domain);
    assertInvariant(state !== undefined, 'a domain is locked before it is read');
    return state;
  }

  async findRevision(domain: string): Promise<number> {
    await this.#lock([domain]);
    return this.#domain(domain).revision;
  }

  async findCommit(domain: string, requestId: string): Promise<RootRefCommit | undefined> {
    await this.#know([{ domain, requestId }]);
    return this.#domain(domain).commits.get(requestId);
  }

  async findBalances(domain: string, hashes: readonly Hash[]): Promise<number[]> {
    await this.#know([], [{ domain, hashes }]);
    const { balances } = this.#domain(domain);
    return hashes.map((hash) => balances.get(hash)?.current?.balance ?? 0);
  }

  /** Reads everything that these commits read, in one trip. */
  async prefetch(reads: readonly RootRefReads[]): Promise<void> {
    await this.#know(reads, reads);
  }

  /** Sends everything together; the server runs it in this order, so the domains are locked before the rest is read. */
  async #know(
    commits: readonly Pick<RootRefReads, 'domain' | 'requestId'>[],
    balances: readonly Pick<RootRefReads, 'domain' | 'hashes'>[] = [],
  ): Promise<void> {
    await Promise.all([
      this.#lock([...commits, ...balances].map(({ domain }) => domain)),
      this.#readCommits(commits),
      this.#readBalances(balances),
    ]);
  }

  async #readCommits(asked: readonly Pick<RootRefReads, 'domain' | 'requestId'>[]): Promise<void> {
    const unknown = asked.filter(({ domain, requestId }) => !this.#domain(domain).commits.has(requestId));
    if (unknown.length === 0) return;
    const found = await this.#wire.send('findCommits', [
      this.#space,
      unknown.map(({ domain }) => domain),
      unknown.map(({ requestId }) => textToBytea(requestId)),
    ]);
    for (const { domain, requestId } of unknown) this.#domain(domain).commits.set(requestId, undefined);
    for (const row of found.rows) {
      const requestId = byteaToText(row.request_id);
      const payloadDigest = byteaToBytes(row.payload_digest);
      const commit = { requestId, payloadDigest, revision: row.revision as number };
      this.#domain(row.domain as string).commits.set(requestId, commit);
    }
  }

  async #readBalances(asked: readonly Pick<RootRefReads, 'domain' | 'hashes'>[]): Promise<void> {
    const unknown: { domain: string; hash: Hash }[] = [];
    for (const { domain, hashes } of asked) {
      const { balances } = this.#domain(domain);
      for (const hash of hashes) if (!balances.has(hash)) unknown.push({ domain, hash });
    }
    if (unknown.length === 0) return;
    const found = await this.#wire.send('findBalances', [this.#space, ...keysToSql(unknown)]);
    for (const { domain, hash } of unknown) {
      this.#domain(domain).balances.set(hash, { stored: undefined, current: undefined });
    }
    for (const row of found.rows) {
      const stored = { balance: row.balance as number, since: row.from_revision as number };
      this.#domain(row.domain as string).balances.set(byteaToHex(row.hash), { stored, current: stored });
    }
  }

  async insertCommit(domain: string, commit: RootRefCommit, given: readonly BalanceChange[]): Promise<void> {
    const changes = given.filter(({ before, after }) => before !== after);
    await this.#know([], [{ domain, hashes: changes.map(({ hash }) => hash) }]);
    const state = this.#domain(domain);
    const { revision } = commit;
    assertInvariant(revision === state.revision + 1, 'revisions grow by 1');
    for (const { hash, before, after } of changes) {
      const known = state.balances.get(hash);
      assertInvariant((known?.current?.balance ?? 0) === before, 'a balance is as it was read');
      if (known === undefined) continue;
      if (known.current !== undefined)
        this.#history.push({ domain, hash, ...known.current, until: revision });
      known.current = after === 0 ? undefined : { balance: after, since: revision };
    }
    this.#changeCount += 1;
    state.revision = revision;
    state.commits.set(commit.requestId, commit);
    this.#commits.push({ domain, commit });
  }

  takeWrites(): Statement[] {
    if (this.#commits.length === 0) return [];
    const commits = this.#commits.splice(0);
    const history = this.#history.splice(0);
    const writes: Statement[] = [...this.#takeDomains()];
    writes.push([
      'insertCommits',
      [
        this.#space,
        commits.map(({ domain }) => domain),
        commits.map(({ commit }) => textToBytea(commit.requestId)),
        commits.map(({ commit }) => bytesToBytea(commit.payloadDigest)),
        commits.map(({ commit }) => commit.revision),
      ],
    ]);
    if (history.length > 0) {
      const columns = [
        ...keysToSql(history),
        history.map(({ since }) => since),
        history.map(({ until }) => until),
      ];
      const balances = history.map(({ balance }) => balance);
      writes.push(['insertHistory', [this.#space, ...columns, balances, this.#wire.clock]]);
    }
    return [...writes, ...this.#takeBalances()];
  }

  #takeDomains(): Statement[] {
    const made: [string, Domain][] = [];
    const advanced: [string, Domain][] = [];
    for (const [domain, state] of this.#domains) {
      if (state.revision === (state.stored ?? 0)) continue;
      (state.stored === undefined ? made : advanced).push([domain, state]);
    }
    const names = (domains: [string, Domain][]) => domains.map(([domain]) => domain);
    const revisions = (domains: [string, Domain][]) => domains.map(([, { revision }]) => revision);
    const writes: Statement[] = [];
    if (made.length > 0) writes.push(['insertDomains', [this.#space, names(made), revisions(made)]]);
    if (advanced.length > 0) {
      const since = advanced.map(([, { stored = 0 }]) => stored);
      const columns = [names(advanced), since, revisions(advanced)];
      writes.push(['advanceRevisions', [this.#space, ...columns, advanced.length]]);
    }
    for (const [, state] of [...made, ...advanced]) state.stored = state.revision;
    return writes;
  }

  #takeBalances(): Statement[] {
    const set: (Balance & { domain: string; hash: Hash })[] = [];
    const gone: { domain: string; hash: Hash }[] = [];
    for (const [domain, { balances }] of this.#domains) {
      for (const [hash, known] of balances) {
        const { stored, current } = known;
        if (stored === current) continue;
        if (current !== undefined) set.push({ domain, hash, ...current });
        else if (stored !== undefined) gone.push({ domain, hash });
        known.stored = current;
      }
    }
    const writes: Statement[] = [];
    if (set.length > 0) {
      const columns = [set.map(({ balance }) => balance), set.map(({ since }) => since)];
      writes.push(['setBalances', [this.#space, ...keysToSql(set), ...columns]]);
    }
    if (gone.length > 0) writes.push(['deleteBalances', [this.#space, ...keysToSql(gone), gone.length]]);
    return writes;
  }
}

function keysToSql(keys: readonly { readonly domain: string; readonly hash: Hash }[]): [string[], string[]] {
  return [keys.map(({ domain }) => domain), keys.map(({ hash }) => hexToBytea(hash))];
}
