/** Root-ref rows of one transaction: balances, their history, and the commits (docs/api.md, updateRootRefs). */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../core/invariant.ts';
import type { RootRefCommit } from '../../core/model.ts';
import { afterCommit, afterNote, NEVER_WALKED, type WalkState } from '../../core/root-ref-walks.ts';
import {
  balanceStart,
  balanceSum,
  commitSum,
  DOMAIN_WEIGHTS,
  domainSum,
  historySum,
  isSum,
} from '../../core/rows/row-sums.ts';
import { firstRevisionOf, isCommitSound, isDomainSound, requestKey } from './ledger-rows.ts';
import { commitFromSql, damagedRow, hexToBytes } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

const AS_READ = 'a balance is as it was read';

interface Change {
  readonly hash: Hash;
  readonly before: number;
  readonly after: number;
}

interface Balance {
  /** the hash as bytes */
  readonly key: Uint8Array;
  readonly balance: number;
  /** the revision that set it; -1: there is none */
  readonly from: number;
  /** of its sums */
  readonly start: ReturnType<typeof balanceStart>;
}

interface Domain extends WalkState {
  readonly key: string;
  readonly id: number;
  readonly revision: number;
}

export class RootRefLedger {
  readonly #scope: WriteScope;
  /** The balances of one domain that this transaction has read: a commit reads its balances first, and then writes them. */
  readonly #found = new Map<Hash, Balance>();
  #foundIn: number | undefined;
  /** the domain as it was read last; undefined: it has changed since, or none was read */
  #domain: Domain | undefined;

  constructor(scope: WriteScope) {
    this.#scope = scope;
  }

  findRevision(spaceId: number, domain: string): number {
    return this.#findDomain(spaceId, domain)?.revision ?? this.#readFirstRevision();
  }

  findCommit(spaceId: number, domain: string, requestId: string): RootRefCommit | undefined {
    const found = this.#findDomain(spaceId, domain);
    if (found === undefined) return undefined;
    const { sql } = this.#scope;
    const keys = [found.id, requestId, requestKey(found.id, requestId)] as const;
    if (this.#scope.find(sql.mayKnowCommit, ...keys) === undefined) return undefined;
    for (const row of this.#scope.findAll(sql.findCommit, ...keys)) {
      if (!isCommitSound(row)) throw damagedRow('the commit', JSON.stringify(requestId));
      // Another request may have the same second key.
      if (row.domain === found.id && row.request_id === requestId) return commitFromSql(row);
    }
    if (this.#scope.find(sql.isCommitIndexed, ...keys) !== undefined)
      throw damagedRow('the commit', JSON.stringify(requestId));
    return undefined;
  }

  findBalances(spaceId: number, domain: string, hashes: readonly Hash[]): number[] {
    const found = this.#findDomain(spaceId, domain);
    if (found === undefined) return hashes.map(() => 0);
    return hashes.map((hash) => this.#findBalance(found.id, hash).balance);
  }

  insertCommit(spaceId: number, domain: string, commit: RootRefCommit, changes: readonly Change[]): void {
    const { sql } = this.#scope;
    const found = this.#findDomain(spaceId, domain) ?? this.#insertDomain(spaceId, domain);
    const { id } = found;
    const { revision } = commit;
    const { walkedFrom, walkedUntil, keepsHistory } = afterCommit(found, revision, this.#scope.now);
    const more = changes.reduce(
      (sum, { before, after }) => sum + Number(after !== 0) - Number(before !== 0),
      0,
    );
    const sum =
      DOMAIN_WEIGHTS.revision +
      DOMAIN_WEIGHTS.commitCount +
      DOMAIN_WEIGHTS.balanceCount * more +
      DOMAIN_WEIGHTS.walkedFrom * (walkedFrom - found.walkedFrom) +
      DOMAIN_WEIGHTS.walkedUntil * (walkedUntil - found.walkedUntil);
    const numbers = [revision, more, walkedFrom, walkedUntil, sum] as const;
    this.#scope.writeOne('revisions grow by 1', sql.advanceRevision, id, ...numbers);
    const key = requestKey(id, commit.requestId);
    const values = [id, commit.requestId, commit.payloadDigest, revision, key] as const;
    this.#scope.write(sql.insertCommit, ...values, commitSum(id, commit));
    for (const change of changes) {
      if (change.before !== change.after) this.#change(id, revision, change, keepsHistory);
    }
    this.#found.clear();
    this.#domain = undefined;
  }

  noteWalk(spaceId: number, domain: string): void {
    const found = this.#findDomain(spaceId, domain);
    if (found === undefined) return;
    this.#scope.writeOne(
      'a domain stays',
      this.#scope.sql.noteWalk,
      found.id,
      afterNote(found.walkedUntil, this.#scope.now),
    );
    this.#domain = undefined;
  }

  #change(id: number, revision: number, { hash, before, after }: Change, keepsHistory: boolean): void {
    const { sql, now } = this.#scope;
    const { key, from, start } = this.#findBalance(id, hash);
    const sum = balanceSum(id, hash, after, revision, start);
    if (before === 0) {
      this.#scope.write(sql.insertBalance, id, key, after, revision, sum);
      return;
    }
    // These are single-row statements, because SQLite would journal every page of an INSERT … SELECT.
    if (after === 0) this.#scope.writeOne(AS_READ, sql.deleteBalance, id, key, before, from);
    else this.#scope.writeOne(AS_READ, sql.updateBalance, id, key, after, revision, before, from, sum);
    if (!keepsHistory) return;
    const ended = { fromRevision: from, toRevision: revision, balance: before, supersededAt: now };
    const endedSum = historySum(id, hash, ended, start);
    this.#scope.write(sql.insertHistory, id, key, from, revision, before, now, endedSum);
  }

  #findBalance(id: number, hash: Hash): Balance {
    if (this.#foundIn !== id) this.#found.clear();
    this.#foundIn = id;
    const known = this.#found.get(hash);
    if (known !== undefined) return known;
    const key = hexToBytes(hash);
    const row = this.#scope.find(this.#scope.sql.findBalance, id, key);
    const start = balanceStart(id, hash);
    const balance =
      row === undefined
        ? { key, balance: 0, from: -1, start }
        : { key, balance: row.balance as number, from: row.from_revision as number, start };
    if (row !== undefined && !isSum(row.row_sum, balanceSum(id, hash, balance.balance, balance.from, start)))
      throw damagedRow('the balance of', hash);
    this.#found.set(hash, balance);
    return balance;
  }

  #findDomain(spaceId: number, domain: string): Domain | undefined {
    const key = `${spaceId} ${domain}`;
    if (this.#domain?.key === key) return this.#domain;
    const row = this.#scope.find(this.#scope.sql.findDomain, spaceId, domain);
    if (row === undefined) this.#scope.ledger.assertNoneLost(spaceId, domain);
    else if (!isDomainSound(row)) throw damagedRow('the domain', JSON.stringify(domain));
    this.#domain = row && {
      key,
      id: row.id as number,
      revision: row.revision as number,
      walkedFrom: row.walked_from as number,
      walkedUntil: row.walked_until as number,
    };
    return this.#domain;
  }

  #readFirstRevision(): number {
    return firstRevisionOf(this.#scope.find(this.#scope.sql.readFirstRevision));
  }

  #insertDomain(spaceId: number, domain: string): Omit<Domain, 'key'> {
    this.#scope.beginWriting();
    const first = this.#readFirstRevision();
    const walkedUntil = NEVER_WALKED;
    const row = this.#scope.find(this.#scope.sql.insertDomain, spaceId, domain, first, walkedUntil);
    assertInvariant(row !== undefined, 'an inserted domain has an id');
    const id = row.id as number;
    const sum = domainSum([id, spaceId, domain], {
      ...{
        revision: first,
        historyFloor: first,
        commitCount: 0,
        balanceCount: 0,
        walkedFrom: 0,
        walkedUntil,
      },
    });
    this.#scope.writeOne('a domain is sealed', this.#scope.sql.sealDomain, id, sum);
    return { id, revision: first, walkedFrom: 0, walkedUntil };
  }
}
