/** The value of the label `app`: bounded, whatever callers name. */

/** Apps with series of their own in one process; all others are `other`. */
const APPS_LABELLED_MAX = 1000;
export const OTHER_APP = 'other';

/** The label for a registered App: its own id as long as there is room. */
export class AppLabels {
  readonly #known = new Set<string>();

  labelOf(appId: string): string {
    if (this.#known.has(appId)) return appId;
    if (this.#known.size >= APPS_LABELLED_MAX) return OTHER_APP;
    this.#known.add(appId);
    return appId;
  }
}
