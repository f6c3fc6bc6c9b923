/** The removals of a purge in a Space besides nodes and uploads (core/tenancy-ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { DiscardRow, SpaceKey } from '../../core/model.ts';
import type { PurgeVerbs } from '../../core/tenancy-ports.ts';
import { findDiscardInSql, hashesToSql } from './rows.ts';
import type { TransactionWire } from './wire/transaction-wire.ts';
import { byteaToHex } from './wire/wire-messages.ts';

export class PostgresPurge implements PurgeVerbs {
  readonly #wire: TransactionWire;
  readonly #space: SpaceKey;

  constructor(wire: TransactionWire, space: SpaceKey) {
    this.#wire = wire;
    this.#space = space;
  }

  /** The domains are locked first, as by every commit. */
  async takeBalances(of: number | readonly Hash[]): Promise<readonly Hash[]> {
    const closing = this.#wire.send('closeDomains', [this.#space]);
    const taking =
      typeof of === 'number'
        ? this.#wire.send('takeBalances', [this.#space, of])
        : this.#wire.send('takeBalancesOf', [this.#space, hashesToSql(of)]);
    const [{ rows }] = await Promise.all([taking, closing]);
    return typeof of === 'number' ? rows.map(({ hash }) => byteaToHex(hash)) : of;
  }

  async removeHistory(limit: number): Promise<number> {
    const removed = await Promise.all([
      this.#wire.send('deleteAnyHistory', [this.#space, limit]),
      this.#wire.send('deleteAnyCommits', [this.#space, limit]),
    ]);
    return removed.reduce((sum, { count }) => sum + count, 0);
  }

  async findKeptDiscards(dueAfter: number, limit: number): Promise<readonly DiscardRow[]> {
    const { rows } = await this.#wire.send('findKeptDiscards', [this.#space, dueAfter, limit]);
    return rows.map((row) => findDiscardInSql(this.#space, row)).filter((row) => row !== undefined);
  }

  async finish(): Promise<void> {
    await Promise.all([
      this.#wire.send('recountCommits', [this.#space]),
      this.#wire.send('notePurged', [this.#space]),
    ]);
  }
}
