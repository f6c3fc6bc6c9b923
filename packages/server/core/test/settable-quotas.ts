import {
  type Excess,
  findExcess,
  type QuotaLimits,
  type Quotas,
  type Reservation,
  type SpaceQuotas,
  type Stored,
} from '../quotas.ts';

/** What a test sets holds in every Space from then on. */
export class SettableQuotas implements Quotas {
  space: QuotaLimits | undefined;
  app: { readonly limits: QuotaLimits; stored: Stored } | undefined;
  /** how many reservations have not been settled */
  reserved = 0;

  find(): SpaceQuotas | undefined {
    if (this.space === undefined && this.app === undefined) return undefined;
    return { space: this.space, isAppLimited: this.app !== undefined };
  }

  async findAppExcess(_: unknown, more: Stored): Promise<Excess | undefined> {
    return this.#judge(more);
  }

  #judge(more: Stored): Excess | undefined {
    return this.app && findExcess('App', this.app.limits, this.app.stored, more);
  }

  async reserve(_: unknown, more: Stored): Promise<Excess | Reservation> {
    const excess = this.#judge(more);
    if (excess !== undefined) return excess;
    this.reserved += 1;
    this.#add(more, 1);
    return {
      more,
      settle: (isStored) => {
        this.reserved -= 1;
        if (!isStored) this.#add(more, -1);
      },
    };
  }

  /** What is pending in the App is not summed. */
  async reserveReceipt(_: unknown, bytes: number): Promise<Excess | Reservation> {
    const more = { bytes, nodes: 0 };
    return this.#judge(more) ?? { more, settle: () => undefined };
  }

  #add({ bytes, nodes }: Stored, sign: 1 | -1): void {
    if (this.app === undefined) return;
    const { stored } = this.app;
    this.app.stored = { bytes: stored.bytes + sign * bytes, nodes: stored.nodes + sign * nodes };
  }
}
