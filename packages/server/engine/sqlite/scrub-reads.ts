/** The scrub's reads: node rows in order, each with its content, from the disk. */
import type { ContentRow, NodeRow, Space } from '../../core/model.ts';
import type { ScrubItem, ScrubPosition } from '../../core/upkeep-ports.ts';
import { isDamageMet } from '../local-failure.ts';
import type { DiskReads } from './disk-reads.ts';
import { bytesToHex, contentFromSql, hexToBytes, nodeFromSql } from './rows.ts';
import { ScrubWalk } from './scrub-walk.ts';

interface ScrubPage {
  readonly items: readonly ScrubItem[];
  readonly next: ScrubPosition | undefined;
}

export class ScrubReads {
  readonly #disk: DiskReads;
  readonly #readSpace: (id: number) => Space;
  readonly #walk = new ScrubWalk();

  constructor(disk: DiskReads, readSpace: (id: number) => Space) {
    this.#disk = disk;
    this.#readSpace = readSpace;
  }

  find(after: ScrubPosition | undefined, limit: number): ScrubPage {
    try {
      const found = this.#read(this.#walk.from(after), limit);
      this.#walk.goOn();
      return found;
    } catch (error) {
      if (isDamageMet(error)) this.#walk.skip(after);
      throw error;
    }
  }

  #read({ space, hash }: ReturnType<ScrubWalk['from']>, limit: number): ScrubPage {
    const rows = this.#disk.sql.findNodesToScrub.all(space, hexToBytes(hash), limit);
    const items = rows.map((row): ScrubItem => {
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
      if (!isDamageMet(error)) throw error;
      this.#disk.endTurn();
      return undefined;
    }
  }
}
