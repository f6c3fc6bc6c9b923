/** The removals of a purge in a Space besides nodes and uploads (core/tenancy-ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { DiscardRow } from '../../core/model.ts';
import type { PurgeVerbs } from '../../core/tenancy-ports.ts';
import { bytesToHex, discardFromSql, hexToBytes, isDiscardSound } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

export class SqlitePurge implements PurgeVerbs {
  readonly #scope: WriteScope;
  readonly #space: number;

  constructor(scope: WriteScope, space: number) {
    this.#scope = scope;
    this.#space = space;
  }

  takeBalances(of: number | readonly Hash[]): readonly Hash[] {
    const { sql } = this.#scope;
    const hashes = typeof of === 'number' ? this.#findAnyBalances(of) : of;
    this.#scope.write(sql.closeDomains, this.#space);
    for (const hash of hashes) {
      this.#scope.write(sql.discountBalancesOf, this.#space, hexToBytes(hash));
      this.#scope.write(sql.deleteBalancesOf, this.#space, hexToBytes(hash));
    }
    return hashes;
  }

  #findAnyBalances(limit: number): readonly Hash[] {
    const rows = this.#scope.findAll(this.#scope.sql.findAnyBalances, this.#space, limit);
    return [...new Set(rows.map(({ hash }) => bytesToHex(hash as Uint8Array)))];
  }

  removeHistory(limit: number): number {
    const { sql } = this.#scope;
    return (
      this.#scope.write(sql.deleteAnyHistory, this.#space, limit) +
      this.#scope.write(sql.deleteAnyCommits, this.#space, limit)
    );
  }

  findKeptDiscards(dueAfter: number, limit: number): readonly DiscardRow[] {
    const rows = this.#scope.findAll(this.#scope.sql.findKeptDiscards, this.#space, dueAfter, limit);
    return rows.filter(isDiscardSound).map(discardFromSql);
  }

  finish(): void {
    const { sql } = this.#scope;
    this.#scope.write(sql.recountCommits, this.#space);
    this.#scope.write(sql.notePurged, this.#space);
  }
}
