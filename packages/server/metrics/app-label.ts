/** Bounded values of the label `app`, whatever callers name. */

export const OTHER_APP = 'other';

/** The label for a registered App: its own id as long as there is room. */
export class AppLabels {
  readonly #known = new Set<string>();

  labelOf(appId: string): string {
    if (this.#known.has(appId)) return appId;
    if (this.#known.size >= 1000) return OTHER_APP;
    this.#known.add(appId);
    return appId;
  }
}
