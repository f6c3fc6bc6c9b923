/** The hold on a share of a resource (fair-shares.ts). */
type End<Share> = (hold: ShareHold<Share>, share: Share, amount: number, isOver: boolean) => void;
type Grow<Share> = (hold: ShareHold<Share>, share: Share, more: number) => boolean;

/** An amount of the resource that somebody holds. */
export class ShareHold<Share> {
  isReclaimed = false;
  readonly #end: End<Share>;
  readonly #tryGrow: Grow<Share>;
  readonly #share: Share;
  readonly #onReclaim: (() => void) | undefined;
  #amount: number;
  #isOver = false;

  constructor(
    end: End<Share>,
    grow: Grow<Share>,
    share: Share,
    amount: number,
    onReclaim: (() => void) | undefined,
  ) {
    this.#end = end;
    this.#tryGrow = grow;
    this.#share = share;
    this.#amount = amount;
    this.#onReclaim = onReclaim;
  }

  get amount(): number {
    return this.#amount;
  }

  /** Gives everything back. A second call does nothing. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const amount = this.#amount;
    this.#amount = 0;
    this.#end(this, this.#share, amount, true);
  }

  /** Gives back all but `amount`. */
  shrinkTo(amount: number): void {
    const less = this.#amount - amount;
    if (this.#isOver || less <= 0) return;
    this.#amount = amount;
    this.#end(this, this.#share, less, false);
  }

  /** Holds `more` in addition, at once, or answers false. */
  tryGrow(more: number): boolean {
    if (this.#isOver || !this.#tryGrow(this, this.#share, more)) return false;
    this.#amount += more;
    return true;
  }

  reclaim(): void {
    this.isReclaimed = true;
    this.#onReclaim?.();
  }
}
