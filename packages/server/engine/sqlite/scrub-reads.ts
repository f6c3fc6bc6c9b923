/** The scrub's reads: node rows in order, each with its content, from the disk. */
import type { ContentRow, NodeRow, Space } from '../../core/model.ts';
import { isDamage } from '../../core/store-failure.ts';
import type { ScrubItem, ScrubPosition, Step } from '../../core/upkeep-ports.ts';
import { isDamageMet } from '../local-failure.ts';
import type { DiskReads } from './disk-reads.ts';
import { bytesToHex, contentFromSql, hexToBytes, isNodeSound, nodeFromSql } from './rows.ts';
import { type Place, ScrubWalk } from './scrub-walk.ts';
import type { ReadStatements } from './statements.ts';

type ScrubPage = Step<ScrubItem>;

/** Nothing can be read up to the end: the walk is complete. */
const NO_MORE: ScrubPage = { items: [], next: undefined };

export class ScrubReads {
  readonly #disk: DiskReads;
  readonly #readSpace: (id: number) => Space;
  readonly #walk: ScrubWalk;

  constructor(disk: DiskReads, reads: ReadStatements, readSpace: (id: number) => Space) {
    this.#disk = disk;
    this.#readSpace = readSpace;
    this.#walk = new ScrubWalk((space) => reads.listSpaces.get(space, 1)?.id as number | undefined);
  }

  find(after: ScrubPosition | undefined, limit: number): ScrubPage {
    try {
      const from = this.#walk.from(after);
      const found = from === undefined ? NO_MORE : this.#read(from, limit);
      this.#walk.goOn();
      return found;
    } catch (error) {
      if (isDamageMet(error)) this.#walk.skip(after);
      throw error;
    }
  }

  #read({ space, hash }: Place, limit: number): ScrubPage {
    const rows = this.#disk.sql.findNodesToScrub.all(space, hexToBytes(hash), limit);
    // A damaged row stays as it is: the check names it.
    const items = rows.filter(isNodeSound).map((row): ScrubItem => {
      const node = nodeFromSql(row);
      const id = row.space as number;
      return { space: this.#readSpace(id), node, content: this.#readContent(id, node) };
    });
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { items, next: last && `${last.space}.${bytesToHex(last.hash as Uint8Array)}` };
  }

  /** `undefined` also for a record on a damaged page: the code that makes the row rotten reads it again. */
  #readContent(spaceId: number, { generation }: NodeRow): ContentRow | undefined {
    try {
      const row = this.#disk.sql.findContent.get(hexToBytes(generation));
      return row?.space === spaceId ? contentFromSql(row, generation) : undefined;
    } catch (error) {
      if (!isDamageMet(error) && !isDamage(error)) throw error;
      if (isDamageMet(error)) this.#disk.endTurn();
      return undefined;
    }
  }
}
