/** What a purge takes from a Space beside its nodes and uploads (core/tenancy-ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { PurgeVerbs } from '../../core/tenancy-ports.ts';
import { bytesToHex } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

export class SqlitePurge implements PurgeVerbs {
  readonly #scope: WriteScope;
  readonly #space: number;

  constructor(scope: WriteScope, space: number) {
    this.#scope = scope;
    this.#space = space;
  }

  takeBalances(limit: number): readonly Hash[] {
    const { sql } = this.#scope;
    this.#scope.write(sql.closeDomains, this.#space);
    const hashes = new Set<Hash>();
    for (const row of this.#scope.findAll(sql.findAnyBalances, this.#space, limit)) {
      const hash = row.hash as Uint8Array;
      hashes.add(bytesToHex(hash));
      this.#scope.write(sql.deleteBalancesOf, this.#space, hash);
    }
    return [...hashes];
  }

  removeHistory(limit: number): number {
    const { sql } = this.#scope;
    return (
      this.#scope.write(sql.deleteAnyHistory, this.#space, limit) +
      this.#scope.write(sql.deleteAnyCommits, this.#space, limit)
    );
  }
}
