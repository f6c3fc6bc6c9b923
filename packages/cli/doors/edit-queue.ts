/** Edits that come together as one commit: what comes while a commit is under way becomes the next one. */
import { EditError, type Snapshot, type TreeEdit } from '@holdfast/client/internal';

export interface QueuedEdit {
  /** what the edits change, or judge */
  readonly paths: readonly string[];
  readonly edits: readonly TreeEdit[];
  /** of the content among the edits */
  readonly bytes: number;
  /** Judges the head that the edits are done on. What it throws ends this edit alone. */
  readonly check?: ((head: Snapshot | undefined) => Promise<void>) | undefined;
}

export type CheckHead = (head: Snapshot | undefined) => Promise<void>;

interface Waiting extends QueuedEdit {
  readonly settle: PromiseWithResolvers<undefined>;
}

export class EditQueue {
  readonly #apply: (edits: readonly TreeEdit[], check: CheckHead) => Promise<void>;
  #waiting: Waiting[] = [];
  #running: Promise<void> = Promise.resolve();
  /** bodies on their way */
  #coming = 0;
  /** of the last commit */
  #count = 0;
  #onChange = (): void => undefined;

  /** `apply`: one commit. */
  constructor(apply: (edits: readonly TreeEdit[], check: CheckHead) => Promise<void>) {
    this.#apply = apply;
  }

  /** `make`: the edit, once its body is here. A commit waits a little for a body that `isSmall`. Settles once it is committed. */
  async addSoon(isSmall: boolean, make: () => Promise<QueuedEdit | undefined>): Promise<void> {
    if (!isSmall) {
      const edit = await make();
      return edit && this.add(edit);
    }
    this.#coming += 1;
    let committed: Promise<undefined> | undefined;
    try {
      const edit = await make();
      committed = edit && this.add(edit);
    } finally {
      this.#coming -= 1;
      this.#onChange();
    }
    await committed;
  }

  /** Settles once the edit is committed. */
  add(edit: QueuedEdit): Promise<undefined> {
    const settle = Promise.withResolvers<undefined>();
    this.#waiting.push({ ...edit, settle });
    this.#onChange();
    // One commit a turn: edits that never pause must not keep others from theirs.
    void this.inTurn(async () => {
      if (this.#waiting.length === 0) return;
      await this.#gather();
      const all = this.#take();
      this.#count = all.length;
      await this.#commit(all);
    });
    return settle.promise;
  }

  /** Does `work` when no commit is under way. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#running.then(work);
    this.#running = turn.catch(() => undefined);
    return turn;
  }

  async #gather(): Promise<void> {
    // Requests that have come are begun first.
    await new Promise<void>((resolve) => setImmediate(resolve));
    const isGathered = (): boolean => this.#coming === 0 && this.#waiting.length >= this.#count;
    if (isGathered()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    // A commit waits for edits that come about now: of bodies on their way, and of clients that the last commit answered.
    const late = setTimeout(resolve, 50);
    this.#onChange = () => {
      if (isGathered()) resolve();
    };
    await promise;
    clearTimeout(late);
    this.#onChange = () => undefined;
  }

  /** Two edits of one path judge each other's result: the second waits for the next commit. */
  #take(): readonly Waiting[] {
    const paths = new Set<string>();
    let bytes = 0;
    let count = 0;
    for (const edit of this.#waiting) {
      bytes += edit.bytes;
      const isFull = count === 1_000 || (count > 0 && bytes > 8 * 1024 * 1024);
      if (isFull || edit.paths.some((path) => paths.has(path))) break;
      for (const path of edit.paths) paths.add(path);
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  /** Those that cannot be are left out of the commit. */
  async #commit(all: readonly Waiting[]): Promise<void> {
    const failed = new Map<Waiting, unknown>();
    let edits = all;
    const check = async (head: Snapshot | undefined): Promise<void> => {
      failed.clear();
      for (const edit of edits) await edit.check?.(head).catch((error: unknown) => failed.set(edit, error));
      for (const error of failed.values()) throw error;
    };
    while (edits.length > 0) {
      failed.clear();
      try {
        await this.#apply(
          edits.flatMap((each) => each.edits),
          check,
        );
        for (const { settle } of edits) settle.resolve(undefined);
        return;
      } catch (error) {
        // A judgement of an older head says nothing where the commit failed for another reason.
        if (![...failed.values()].includes(error)) failed.clear();
        const owners = edits.flatMap((each) => each.edits.map(() => each));
        const owner = error instanceof EditError ? owners[error.index] : undefined;
        if (failed.size === 0) for (const each of owner ? [owner] : edits) failed.set(each, error);
        for (const [{ settle }, reason] of failed) settle.reject(reason);
        edits = edits.filter((each) => !failed.has(each));
      }
    }
  }
}
