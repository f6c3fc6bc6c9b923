/** A folder of a pull, from its first entry until all in it is done. */

/** A folder that the walk is in or has left. It is over once the walk has left it and all its tasks and folders are over. */
export class OpenFolder {
  readonly parent: OpenFolder | undefined;
  readonly #onDone: () => boolean;
  /** The walk itself is the first. */
  #holders = 1;
  #isDone = true;

  /** `onDone` is called when all below the folder is done. It says whether the folder itself is done then. */
  constructor(parent: OpenFolder | undefined, onDone: () => boolean) {
    this.parent = parent;
    this.#onDone = onDone;
    parent?.hold();
  }

  hold(): void {
    this.#holders += 1;
  }

  release(isDone = true): void {
    this.#holders -= 1;
    this.#isDone &&= isDone;
    if (this.#holders > 0) return;
    const isAllDone = this.#isDone && this.#onDone();
    this.parent?.release(isAllDone);
  }
}
