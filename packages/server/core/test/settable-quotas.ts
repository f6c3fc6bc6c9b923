import type { Quotas, SpaceQuotas, Stored } from '../quotas.ts';

/** What a test sets holds in every Space from then on. */
export class SettableQuotas implements Quotas {
  held: SpaceQuotas | undefined;
  /** what the sum of the App is found to be when it is read again */
  freshSum: Stored | undefined;
  /** what was noted */
  readonly more: Stored[] = [];

  find(): SpaceQuotas | undefined {
    return this.held;
  }

  async findFresh(): Promise<SpaceQuotas | undefined> {
    const { held, freshSum } = this;
    if (held?.app === undefined || freshSum === undefined) return held;
    return { ...held, app: { ...held.app, stored: freshSum } };
  }

  noteStored(_: unknown, more: Stored): void {
    this.more.push(more);
  }
}
