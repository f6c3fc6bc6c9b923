/** How a store says that something failed, and what the failure proves. */
import type { Awaitable } from './awaitable.ts';

/** Proof that content is bad: bytes were read and are wrong. */
export class ContentDamaged extends Error {
  override readonly name = 'ContentDamaged';
}

/** Proof that content is gone: a store known healthy says the object is not there. */
export class ContentLost extends Error {
  override readonly name = 'ContentLost';
}

/** The store failed or is away: the request may be sent again. Nothing was decided, unless `isUndecided` says otherwise. Answers 503. */
export class StoreUnavailable extends Error {
  override readonly name: string = 'StoreUnavailable';
  /** one row cannot be read or removed while the store itself is well; a second try would fail too */
  readonly isDamage: boolean;
  /** damage of an index, by which rows are found: nothing is known of the row itself */
  readonly isIndex: boolean;
  /** the store was lost during a commit, which it may still make */
  readonly isUndecided: boolean;

  constructor(message: string, { isDamage, isIndex, isUndecided, ...options }: StoreFailureOptions = {}) {
    super(message, options);
    this.isDamage = isDamage ?? false;
    this.isIndex = isIndex ?? false;
    this.isUndecided = isUndecided ?? false;
  }
}

/** A row that is not as it was written. Unlike one on a damaged page, it can be removed and written over. */
export class RowDamaged extends StoreUnavailable {
  override readonly name = 'RowDamaged';

  constructor(message: string) {
    super(message, { isDamage: true });
  }
}

/** A damaged page also hides the sound rows on it; a damaged row hides no other. */
export const isPageDamage = (error: unknown): boolean => isDamage(error) && !(error instanceof RowDamaged);

interface StoreFailureOptions extends ErrorOptions {
  readonly isDamage?: boolean;
  readonly isIndex?: boolean;
  readonly isUndecided?: boolean;
}

/** True for a row that cannot be read or removed while the store is well: work on other rows may go on. */
export const isDamage = (error: unknown): error is StoreUnavailable =>
  error instanceof StoreUnavailable && error.isDamage;

/** Whether a failed transaction certainly wrote nothing. After other errors the outcome is unknown: its writer may have died. */
export const hasWrittenNothing = (error: unknown): boolean =>
  error instanceof StoreUnavailable && !error.isUndecided;

/** Resolves with what `work` does, or, if damage fails `work`, with what `instead` does. */
export async function orIfDamaged<T, U>(
  work: () => Awaitable<T>,
  instead: (damage: unknown) => Awaitable<U>,
): Promise<T | U> {
  try {
    return await work();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return instead(error);
  }
}
