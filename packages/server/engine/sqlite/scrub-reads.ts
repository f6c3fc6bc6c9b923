/** The scrub's reads: node rows in order, each with its content, from the disk. */
import type { ContentRow, NodeRow, Space } from '../../core/model.ts';
import { isDamage } from '../../core/store-failure.ts';
import type { ScrubItem, ScrubPosition, Step } from '../../core/upkeep-ports.ts';
import { isDamageMet } from '../local-failure.ts';
import type { DiskReads } from './node-reads.ts';
import { bytesToHex, contentFromSql, hexToBytes, isNodeSound, nodeFromSql } from './rows.ts';
import { isRecordHidden, type ReadStatements } from './statements.ts';

/** The position from which rows are read. */
interface Place {
  /** id of the Space; 0 comes before all */
  readonly space: number;
  /** hex; perhaps only the beginning of a hash */
  readonly hash: string;
}

interface Skipped {
  readonly after: ScrubPosition | undefined;
  /** undefined: there is no Space behind the damage */
  readonly to: Place | undefined;
  readonly step: number;
}

/** The position from which the scrub's walk resumes: after the last node read, or after a range that damage makes unreadable. */
export class ScrubWalk {
  readonly #findSpaceAfter: (space: number) => number | undefined;
  #skipped: Skipped | undefined;

  /** `findSpaceAfter` gives the id of the next Space that exists. */
  constructor(findSpaceAfter: (space: number) => number | undefined) {
    this.#findSpaceAfter = findSpaceAfter;
  }

  /** The position of the next read: further on each time that damage was found. Returns undefined after the last Space. */
  from(after: ScrubPosition | undefined): Place | undefined {
    const skipped = this.#find(after);
    return skipped === undefined ? parsePlace(after) : skipped.to;
  }

  /** The read succeeded. The next walk tries the skipped range again. */
  goOn(): void {
    this.#skipped = undefined;
  }

  /** The rows after `after` could not be read: the scrub logs that and asks again, and then gets later rows. */
  skip(after: ScrubPosition | undefined): void {
    const from = this.from(after);
    if (from === undefined) return;
    const { space, hash } = from;
    // In the first 32 bits of a hash this is a 4096th of a Space. If the damage continues, the steps grow.
    const step = (hash === '' ? undefined : this.#find(after)?.step) ?? 2 ** 20;
    const start = Number.parseInt(hash.slice(0, 8).padEnd(8, '0'), 16) + step;
    const to =
      start < 2 ** 32 ? { space, hash: start.toString(16).padStart(8, '0') } : this.#startAfter(space);
    this.#skipped = { after, to, step: step * 2 };
  }

  /** Behind the last Space a read would meet the same damaged page for every number. */
  #startAfter(space: number): Place | undefined {
    const next = this.#findSpaceAfter(space);
    return next === undefined ? undefined : { space: next, hash: '' };
  }

  #find(after: ScrubPosition | undefined): Skipped | undefined {
    return this.#skipped?.after === after ? this.#skipped : undefined;
  }
}

function parsePlace(after: ScrubPosition | undefined): Place {
  const [space, hash = ''] = after === undefined ? ['0'] : after.split('.');
  return { space: Number(space), hash };
}

type ScrubPage = Step<ScrubItem>;

/** Nothing can be read up to the end: the walk is complete. */
const NO_MORE: ScrubPage = { items: [], next: undefined };

export class ScrubReads {
  readonly #disk: DiskReads;
  readonly #findSpace: (id: number) => Space | undefined;
  readonly #walk: ScrubWalk;

  constructor(disk: DiskReads, reads: ReadStatements, findSpace: (id: number) => Space | undefined) {
    this.#disk = disk;
    this.#findSpace = findSpace;
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
    // A damaged row stays as it is, also that of a Space: the check names it.
    const items = rows.filter(isNodeSound).flatMap((row): ScrubItem[] => {
      const node = nodeFromSql(row);
      const id = row.space as number;
      const space = this.#findSpace(id);
      const content = space && this.#readContent(id, node);
      return space === undefined || content === 'hidden' ? [] : [{ space, node, content }];
    });
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { items, next: last && `${last.space}.${bytesToHex(last.hash as Uint8Array)}` };
  }

  /** Returns undefined also if the record lies on a damaged page: the code that makes the row rotten reads it again. `hidden`: only an index is damaged. */
  #readContent(spaceId: number, { generation }: NodeRow): ContentRow | undefined | 'hidden' {
    const key = hexToBytes(generation);
    try {
      const row = this.#disk.sql.findContent.get(key);
      return row?.space === spaceId ? contentFromSql(row, generation) : undefined;
    } catch (error) {
      if (!isDamageMet(error) && !isDamage(error)) throw error;
      if (!isDamageMet(error)) return undefined;
      this.#disk.endTurn();
      return isRecordHidden(this.#disk.sql, key) ? 'hidden' : undefined;
    }
  }
}
