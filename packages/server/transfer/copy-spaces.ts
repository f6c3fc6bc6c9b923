/** The first phase: copies every row and its bytes, batch by batch. Each batch is written with the checkpoint after it. */
import { mapSome } from '../core/map-some.ts';
import type { Space } from '../core/model.ts';
import type { BatchPart, ListedSpace } from '../engine/transfer-ports.ts';
import { type Arrival, type Carrier, carryNode, carryUpload } from './carry.ts';
import { type Checkpoint, formatCheckpoint } from './checkpoint.ts';
import { advance, type CopyRun, countNodes, type SpaceVisit, tellProgress, visitSpaces } from './copy-run.ts';
import { patiently } from './patience.ts';
import type { WalkedPage } from './walk-space.ts';

export async function copySpaces(run: CopyRun): Promise<void> {
  await visitSpaces(run, (listed) => new SpaceCopy(run, listed));
}

class SpaceCopy implements SpaceVisit {
  readonly #run: CopyRun;
  readonly #listed: ListedSpace;
  #parts: BatchPart[] = [];
  #releases: (() => Promise<void>)[] = [];
  /** the checkpoint after the parts that wait */
  #checkpoint: Checkpoint;

  constructor(run: CopyRun, listed: ListedSpace) {
    this.#run = run;
    this.#listed = listed;
    this.#checkpoint = run.checkpoint;
  }

  async page(page: WalkedPage): Promise<void> {
    this.#parts.push(await this.#carry(page.part));
    const { damagedNodes } = this.#run;
    const more = countNodes(page);
    this.#checkpoint = { ...advance(this.#checkpoint, this.#listed, page, more), damagedNodes };
    const waiting = this.#parts.reduce((sum, { entries }) => sum + entries.length, 0);
    // Bytes that have arrived get their rows at once, so that a crash makes few of them travel again.
    const isDue = this.#releases.length > 0 || waiting >= this.#run.limits.batchEntriesMax;
    if (page.next !== undefined && !isDue) return;
    await this.#write();
    tellProgress(this.#run);
  }

  async #write(): Promise<void> {
    const { target, patience } = this.#run;
    const batch = { space: this.#listed.space, parts: this.#parts };
    const text = formatCheckpoint(this.#checkpoint);
    try {
      await patiently(patience, async (attempt) => {
        // The try before may have succeeded although its outcome was unknown.
        if (attempt > 0 && (await target.rows.findMark('unfinished')) === text) return;
        await target.rows.write(batch, text);
      });
      this.#run.checkpoint = this.#checkpoint;
      this.#parts = [];
    } finally {
      for (const release of this.#releases.splice(0)) await release();
    }
  }

  async #carry(part: BatchPart): Promise<BatchPart> {
    if (part.kind === 'nodes') return { ...part, entries: await this.#carryAll(part.entries, carryNode) };
    if (part.kind === 'uploads') return { ...part, entries: await this.#carryAll(part.entries, carryUpload) };
    return part;
  }

  async #carryAll<T>(
    entries: readonly T[],
    carry: (carrier: Carrier, space: Space, entry: T) => Promise<Arrival<T>>,
  ): Promise<T[]> {
    const { source, target, patience, limits } = this.#run;
    const { space } = this.#listed;
    const carrier: Carrier = {
      source: source.bytes,
      target: target.intake,
      onDamaged: (node) => {
        this.#run.damagedNodes += 1;
        this.#run.tell({ type: 'damaged', ...node });
      },
    };
    return mapSome(entries, limits.objectsInFlightMax, async (entry) => {
      const arrival = await patiently(patience, () => carry(carrier, space, entry));
      this.#releases.push(arrival.release);
      return arrival.entry;
    });
  }
}
