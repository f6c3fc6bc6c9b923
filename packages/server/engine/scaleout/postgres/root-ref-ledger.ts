/** Root-ref rows of one transaction: balances now, what they were in older revisions, and the commits (contract section 6). */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../../core/invariant.ts';
import type { RootRefCommit, SpaceKey } from '../../../core/model.ts';
import { hashesToSql } from './rows.ts';
import { byteaToBytes, byteaToHex, bytesToBytea, hexToBytea } from './sql-values.ts';
import type { Statement, TransactionWire } from './transaction-wire.ts';

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
  /** the latest revision, once locked; undefined: no commit yet, so no row */
  stored: number | undefined;
  /** those asked for; undefined: no balance */
  readonly balances: Map<Hash, Balance | undefined>;
}

export class RootRefLedger {
  readonly #wire: TransactionWire;
  readonly #space: SpaceKey;
  readonly #domains = new Map<string, Domain>();
  readonly #writes: Statement[] = [];

  constructor(wire: TransactionWire, space: SpaceKey) {
    this.#wire = wire;
    this.#space = space;
  }

  /** The domain's row is locked before anything else of it is read: commits of one domain come one after another. */
  #domain(domain: string): Domain {
    const known = this.#domains.get(domain);
    if (known !== undefined) return known;
    const made: Domain = { locked: Promise.resolve(), stored: undefined, balances: new Map() };
    made.locked = this.#wire.send('lockDomain', [this.#space, domain]).then(({ rows }) => {
      made.stored = rows[0]?.revision as number | undefined;
    });
    this.#domains.set(domain, made);
    return made;
  }

  async findRevision(domain: string): Promise<number> {
    const state = this.#domain(domain);
    await state.locked;
    return state.stored ?? 0;
  }

  async findCommit(domain: string, requestId: string): Promise<RootRefCommit | undefined> {
    // Sent together, answered in this order.
    const [, { rows }] = await Promise.all([
      this.#domain(domain).locked,
      this.#wire.send('findCommit', [this.#space, domain, requestIdToSql(requestId)]),
    ]);
    const row = rows[0];
    if (row === undefined) return undefined;
    const { payload_digest: digest, revision } = row;
    return { requestId, payloadDigest: byteaToBytes(digest), revision: revision as number };
  }

  async findBalances(domain: string, hashes: readonly Hash[]): Promise<number[]> {
    const known = await this.#knowBalances(domain, hashes);
    return hashes.map((hash) => known.get(hash)?.balance ?? 0);
  }

  async #knowBalances(
    domain: string,
    hashes: readonly Hash[],
  ): Promise<ReadonlyMap<Hash, Balance | undefined>> {
    const { locked, balances } = this.#domain(domain);
    const unknown = hashes.filter((hash) => !balances.has(hash));
    if (unknown.length === 0) return balances;
    const [, { rows }] = await Promise.all([
      locked,
      this.#wire.send('findBalances', [this.#space, domain, hashesToSql(unknown)]),
    ]);
    for (const hash of unknown) balances.set(hash, undefined);
    for (const row of rows) {
      balances.set(byteaToHex(row.hash), {
        balance: row.balance as number,
        since: row.from_revision as number,
      });
    }
    return balances;
  }

  async insertCommit(domain: string, commit: RootRefCommit, given: readonly BalanceChange[]): Promise<void> {
    const changes = given.filter(({ before, after }) => before !== after);
    const state = this.#domain(domain);
    await state.locked;
    const missing = changes.filter(({ hash }) => !state.balances.has(hash)).map(({ hash }) => hash);
    if (missing.length > 0) await this.#knowBalances(domain, missing);
    for (const { hash, before } of changes) {
      assertInvariant((state.balances.get(hash)?.balance ?? 0) === before, 'a balance is as it was read');
    }
    const { revision } = commit;
    assertInvariant(revision === (state.stored ?? 0) + 1, 'revisions grow by 1');
    const advance = state.stored === undefined ? 'insertDomain' : 'advanceRevision';
    const digest = bytesToBytea(commit.payloadDigest);
    this.#writes.push(
      [advance, [this.#space, domain, revision]],
      ['insertCommit', [this.#space, domain, requestIdToSql(commit.requestId), digest, revision]],
      ...this.#writeBalances(domain, revision, state, changes),
    );
    state.stored = revision;
  }

  #writeBalances(
    domain: string,
    revision: number,
    { balances }: Domain,
    changes: readonly BalanceChange[],
  ): Statement[] {
    const superseded = changes.flatMap(({ hash }) => {
      const known = balances.get(hash);
      return known === undefined ? [] : [{ hash, ...known }];
    });
    const set = changes.filter(({ after }) => after !== 0);
    const gone = changes.filter(({ after }) => after === 0).map(({ hash }) => hash);
    for (const { hash, after } of changes) {
      balances.set(hash, after === 0 ? undefined : { balance: after, since: revision });
    }
    const scope = [this.#space, domain] as const;
    const writes: Statement[] = [];
    if (superseded.length > 0) {
      const hashes = superseded.map(({ hash }) => hexToBytea(hash));
      const since = superseded.map((known) => known.since);
      const before = superseded.map(({ balance }) => balance);
      writes.push(['insertHistory', [...scope, hashes, since, before, revision, this.#wire.clock]]);
    }
    if (set.length > 0) {
      const hashes = set.map(({ hash }) => hexToBytea(hash));
      const after = set.map((change) => change.after);
      writes.push(['setBalances', [...scope, hashes, after, revision]]);
    }
    if (gone.length > 0) writes.push(['deleteBalances', [...scope, hashesToSql(gone), gone.length]]);
    return writes;
  }

  takeWrites(): Statement[] {
    return this.#writes.splice(0);
  }
}

const requestIdToSql = (requestId: string): string => bytesToBytea(new TextEncoder().encode(requestId));
