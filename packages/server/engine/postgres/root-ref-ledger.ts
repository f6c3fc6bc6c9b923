/** Root-ref rows of one transaction. Several commits may share it: each sees those before it, and all are written at the end. */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../core/invariant.ts';
import type { RootRefCommit, SpaceKey } from '../../core/model.ts';
import type { RootRefReads } from '../../core/ports.ts';
import { afterCommit, afterNote, NEVER_WALKED } from '../../core/root-ref-walks.ts';
import { damagedDomain, RowDamaged } from './damage.ts';
import {
  balanceSum,
  commitSum,
  domainCountSum,
  domainStateFromSql,
  domainSum,
  historySum,
  requestSum,
  type Superseded,
} from './row-sums.ts';
import { spaceKeyFromSql } from './space-names.ts';
import { assertStartKnown } from './tombstones.ts';
import type { Statement, TransactionWire } from './wire/transaction-wire.ts';
import {
  byteaToBytes,
  byteaToHex,
  byteaToText,
  bytesToBytea,
  hexToBytea,
  type SqlRow,
  textToBytea,
} from './wire/wire-messages.ts';

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
  floor: number;
  walkedFrom: number;
  walkedUntil: number;
  /** why its row is not believed */
  damage: RowDamaged | undefined;
  /** its commits and balances that are not believed, by request id or hash */
  readonly damaged: Set<string>;
  /** the commits that were looked for, by request id; undefined: there is none */
  readonly commits: Map<string, RootRefCommit | undefined>;
  readonly balances: Map<Hash, { stored: Balance | undefined; current: Balance | undefined }>;
}

export class RootRefLedger {
  readonly #wire: TransactionWire;
  readonly #space: SpaceKey;
  readonly #domains = new Map<string, Domain>();
  #commits: { readonly domain: string; readonly commit: RootRefCommit }[] = [];
  #history: Superseded[] = [];
  #changeCount = 0;
  /** of a domain without a row */
  readonly #firstRevision: number;

  constructor(wire: TransactionWire, space: SpaceKey, firstRevision: number) {
    this.#firstRevision = firstRevision;
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
          revision: this.#firstRevision,
          floor: this.#firstRevision,
          walkedFrom: this.#firstRevision,
          walkedUntil: NEVER_WALKED,
          damage: undefined,
          damaged: new Set(),
          commits: new Map(),
          balances: new Map(),
        },
      ]);
      const locked = this.#wire.send('lockDomains', [this.#space, unknown]).then(({ rows }) => {
        for (const row of rows) {
          const state = this.#domain(row.domain as string);
          const { domain, revision, row_sum: sum } = row;
          Object.assign(state, domainStateFromSql(row));
          const found = domainSum(this.#space, domain as string, revision as number, state);
          if (sum !== null && sum !== found) state.damage = damagedDomain(domain as string);
          state.stored = revision as number;
          state.revision = state.stored;
        }
        const isWithoutRow = (domain: string): boolean => this.#domain(domain).stored === undefined;
        if (unknown.some(isWithoutRow)) assertStartKnown(this.#firstRevision);
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

  /** Damage in one domain holds up no commit of another that shares the transaction. */
  #sound(domain: string, keys: readonly string[] = []): Domain {
    const state = this.#domain(domain);
    if (state.damage !== undefined) throw state.damage;
    for (const key of keys) {
      if (state.damaged.has(key)) throw new RowDamaged('root refs', `${key} in ${JSON.stringify(domain)}`);
    }
    return state;
  }

  async findRevision(domain: string): Promise<number> {
    await this.#lock([domain]);
    return this.#sound(domain).revision;
  }

  async findCommit(domain: string, requestId: string): Promise<RootRefCommit | undefined> {
    await this.#know([{ domain, requestId }]);
    return this.#sound(domain, [requestId]).commits.get(requestId);
  }

  async findBalances(domain: string, hashes: readonly Hash[]): Promise<number[]> {
    await this.#know([], [{ domain, hashes }]);
    const { balances } = this.#sound(domain, hashes);
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
      unknown.map(({ domain, requestId }) => requestSum(this.#space, domain, requestId)),
    ]);
    for (const { domain, requestId } of unknown) this.#domain(domain).commits.set(requestId, undefined);
    for (const row of found.rows) this.#learnCommit(row, unknown);
  }

  /** A row that is not what its sums say is one of the commits that were asked for, by its name or by the sum of its name. */
  #learnCommit(row: SqlRow, asked: readonly Pick<RootRefReads, 'domain' | 'requestId'>[]): void {
    const [domain, requestId] = [row.domain as string, byteaToText(row.request_id)];
    const payloadDigest = byteaToBytes(row.payload_digest);
    const commit = { requestId, payloadDigest, revision: row.revision as number };
    const space = spaceKeyFromSql(row.space);
    const isProven =
      row.row_sum === null ||
      (row.row_sum === commitSum(space, domain, commit) &&
        row.request_sum === requestSum(space, domain, requestId));
    // A commit of another Space that has the same sum by chance.
    if (isProven && space !== this.#space) return;
    for (const each of asked) {
      const isNamed = each.domain === domain && each.requestId === requestId;
      const isMeant = isNamed || row.request_sum === requestSum(this.#space, each.domain, each.requestId);
      if (isProven && isNamed) this.#domain(domain).commits.set(requestId, commit);
      else if (!isProven && isMeant) this.#domain(each.domain).damaged.add(each.requestId);
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
      const [domain, hash] = [row.domain as string, byteaToHex(row.hash)];
      const isProven =
        row.row_sum === null || row.row_sum === balanceSum(this.#space, { domain, hash, ...stored });
      if (!isProven) this.#domain(domain).damaged.add(hash);
      this.#domain(domain).balances.set(hash, { stored, current: stored });
    }
  }

  async insertCommit(domain: string, commit: RootRefCommit, given: readonly BalanceChange[]): Promise<void> {
    const changes = given.filter(({ before, after }) => before !== after);
    await this.#know([], [{ domain, hashes: changes.map(({ hash }) => hash) }]);
    const state = this.#sound(
      domain,
      changes.map(({ hash }) => hash),
    );
    const { revision } = commit;
    assertInvariant(revision === state.revision + 1, 'revisions grow by 1');
    const { keepsHistory, walkedFrom, walkedUntil } = afterCommit(state, revision, this.#now);
    [state.walkedFrom, state.walkedUntil] = [walkedFrom, walkedUntil];
    for (const { hash, before, after } of changes) {
      const known = state.balances.get(hash);
      assertInvariant((known?.current?.balance ?? 0) === before, 'a balance is as it was read');
      if (known === undefined) continue;
      if (keepsHistory && known.current !== undefined)
        this.#history.push({ domain, hash, ...known.current, until: revision });
      known.current = after === 0 ? undefined : { balance: after, since: revision };
    }
    this.#changeCount += 1;
    state.revision = revision;
    state.commits.set(commit.requestId, commit);
    this.#commits.push({ domain, commit });
  }

  async noteWalk(domain: string): Promise<void> {
    await this.#lock([domain]);
    const state = this.#sound(domain);
    if (state.stored === undefined) return;
    state.walkedUntil = afterNote(state.walkedUntil, this.#now);
    await this.#wire.send('noteWalk', [this.#space, domain, state.walkedUntil]);
  }

  /** Known, because a domain was locked before. */
  get #now(): number {
    const { now } = this.#wire;
    assertInvariant(now !== undefined, 'the instant is known once a domain is locked');
    return now;
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
        commits.map(({ domain, commit }) => commitSum(this.#space, domain, commit)),
        commits.map(({ domain, commit }) => requestSum(this.#space, domain, commit.requestId)),
      ],
    ]);
    if (history.length > 0) {
      const columns = [
        ...keysToSql(history),
        history.map(({ since }) => since),
        history.map(({ until }) => until),
      ];
      const balances = history.map(({ balance }) => balance);
      const sums = history.map((row) => historySum(this.#space, row));
      writes.push(['insertHistory', [this.#space, ...columns, balances, sums, this.#wire.clock]]);
    }
    return [...writes, ...this.#takeBalances()];
  }

  #takeDomains(): Statement[] {
    const made: [string, Domain][] = [];
    const advanced: [string, Domain][] = [];
    for (const [domain, state] of this.#domains) {
      if (state.revision === (state.stored ?? this.#firstRevision)) continue;
      (state.stored === undefined ? made : advanced).push([domain, state]);
    }
    const names = (domains: [string, Domain][]) => domains.map(([domain]) => domain);
    const revisions = (domains: [string, Domain][]) => domains.map(([, { revision }]) => revision);
    const writes: Statement[] = [];
    if (made.length > 0) {
      const first = this.#firstRevision;
      const sums = made.map(([domain, state]) => domainSum(this.#space, domain, state.revision, state));
      const counts = made.map(([, state]) => countMore(state));
      const countSums = made.map(([domain, { revision }], index) =>
        domainCountSum(this.#space, domain, revision - first, counts[index] as number),
      );
      const columns = [names(made), revisions(made), sums, first, counts, countSums];
      writes.push(['insertDomains', [this.#space, ...columns]]);
    }
    if (advanced.length > 0) {
      const since = advanced.map(([, { stored = 0 }]) => stored);
      const columns = [names(advanced), since, revisions(advanced)];
      const more = advanced.map(([, state]) => countMore(state));
      const walks = [
        advanced.map(([, { walkedFrom }]) => walkedFrom),
        advanced.map(([, { walkedUntil }]) => walkedUntil),
      ];
      writes.push(['advanceRevisions', [this.#space, ...columns, advanced.length, more, ...walks]]);
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
      const sums = set.map((row) => balanceSum(this.#space, row));
      const columns = [set.map(({ balance }) => balance), set.map(({ since }) => since), sums];
      writes.push(['setBalances', [this.#space, ...keysToSql(set), ...columns]]);
    }
    if (gone.length > 0) writes.push(['deleteBalances', [this.#space, ...keysToSql(gone), gone.length]]);
    return writes;
  }
}

/** By how many balances the domain has more than are stored. */
function countMore({ balances }: Domain): number {
  let more = 0;
  for (const { stored, current } of balances.values())
    more += Number(current !== undefined) - Number(stored !== undefined);
  return more;
}

function keysToSql(keys: readonly { readonly domain: string; readonly hash: Hash }[]): [string[], string[]] {
  return [keys.map(({ domain }) => domain), keys.map(({ hash }) => hexToBytea(hash))];
}
